"""The page of `dikkat translate --review`: translations for a person to correct, those that are least sure first."""

import html
import json
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from dikkat_runtime.errors import msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.hints import command
from dikkat_runtime.localization import language, translated
from dikkat_runtime.tasks.confidence import CERTAIN
from dikkat_runtime.tasks.translations import Translation

_HELP = msg("The least sure lines come first. Edit a translation to correct it, save, and run: {command}")


def write_review(
    path: Path, run: Path, languages: tuple[str, str], sources: Iterable[str], translations: Iterable[Translation]
) -> None:
    """Write the page of sources and translations. Raises `DiskError` or `CannotCreateError`."""
    rows: list[tuple[float, dict[str, object]]] = []
    for line, (source, translation) in enumerate(zip(sources, translations, strict=True), start=1):
        own = translation.confidence or CERTAIN
        row = {
            "line": line,
            "source": source,
            "target": translation.text,
            "confidence": round(own.probability, 4),
            "flags": own.flags,
            "words": [(word.text, round(word.probability, 4)) for word in own.words],
        }
        rows.append((own.probability, row))
    ordered = [row for _, row in sorted(rows, key=lambda item: item[0])]
    texts = {
        "LANGUAGE": language(),
        "TITLE": html.escape(translated("Translations by {run} to review", run.resolve().name)),
        "SAVE": translated("Save corrections"),
        "HELP": html.escape(translated(_HELP, command("correct", run, "--file", "corrections.tsv", program="dikkat"))),
        "LINE": translated("Line"),
        "SURE": translated("Sure"),
        "SOURCE": translated("Source"),
        "TARGET": translated("Translation"),
        # a text may hold </script>
        "ROWS": json.dumps([*languages, ordered], ensure_ascii=False).replace("<", "\\u003c"),
    }
    page = (resources.files("dikkat_runtime.cli") / "review.html").read_text(encoding="utf-8")
    # in one pass, as a text may hold a name in braces too
    page = re.sub(r"\{\{([A-Z]+)\}\}", lambda match: texts[match[1]], page)
    write_atomically(path, page.encode("utf-8", "replace"))
