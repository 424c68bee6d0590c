"""Write one offline HTML file that holds a model, an engine that computes it, and views of everything it attends to."""

import base64
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.explorer.document import asset as shared_asset
from dikkat.explain.explorer.document import fill, in_one_scope, inert, page_script
from dikkat.web.model_file import WebModel
from dikkat.web.module import asset, core_bytes, service_script
from dikkat_runtime.errors import UsageError

_FOLDER = Path(__file__).parent / "lessons"


def lesson_names() -> list[str]:
    """Return the names of all lessons: the numbers of the pages in docs/seeds, and those that follow."""
    return sorted(path.stem for path in _FOLDER.glob("*.md") if "." not in path.stem)


def lesson_path(name: str) -> Path:
    """Return the file of a lesson: that of a name, or the one that is named. Raises `UsageError` for neither."""
    if name.endswith(".md"):
        return Path(name)
    if name not in lesson_names():
        raise UsageError(
            '--lesson: there is no lesson "{name}"; known: {names}, or a file of your own (.md)', name,
            ", ".join(lesson_names()),
        )  # fmt: skip
    return _FOLDER / f"{name}.md"


ESCAPED = b"\0\r<"
"""Characters that an HTML parser changes, or reads as the beginning of markup, inside a script element."""
_ABOVE = 0x80
"""Added to an escaped character: its low seven bits stay, and UTF-8 writes it in two bytes."""


def seven_bit_text(content: bytes) -> str:
    """Return `content` as text, seven bits a character and the highest bit first; `engine/model_file.js` reads it.

    Text of B bytes has ceil(8 B / 7) characters, of which some 2 % take two bytes in UTF-8.
    """
    padded = np.frombuffer(content + b"\0" * (-len(content) % 7), np.uint8).reshape(-1, 7).astype(np.uint64)
    groups = np.zeros(len(padded), np.uint64)
    for column in padded.T:
        groups = (groups << np.uint64(8)) | column
    shifts = np.arange(49, -1, -7, dtype=np.uint64)
    characters = ((groups[:, None] >> shifts) & np.uint64(0x7F)).astype(np.uint8).ravel()[: -(-8 * len(content) // 7)]
    characters[np.isin(characters, np.frombuffer(ESCAPED, np.uint8))] += _ABOVE
    return characters.tobytes().decode("latin-1")


LIVE_SCRIPTS = (
    "client.js", "live_experiment.js", "live.js", "live_panels.js", "live_six_steps.js", "live_readers.js",
    "live_lesson.js", "live_start.js",
)  # fmt: skip
"""Scripts of the page after those that it shares with an attention page."""
MODEL_SUFFIX = ".dikkat"
MAX_EMBEDDED_WEIGHTS = 100_000_000
"""Weights above which a model lies in a file next to its page, which streams it."""
MAX_QUICK_SIZE = 30_000_000
"""Bytes of a file above which phones and old laptops take seconds to open it."""


def live_page(
    model: WebModel,
    language: str = "en",
    examples: Sequence[str] = (),
    lesson: Mapping[str, Any] | None = None,
    neighbour: tuple[str, bytes] | None = None,
) -> str:
    """Return the whole HTML file of a model; `language` is the one it opens in.

    `examples` are texts to choose from; the first one is read when the page opens. With `lesson` (see
    `dikkat.explain.lesson.answered`) the page opens in its first step. With `neighbour`, a name and the bytes of the
    model file, the page reads this file of its own folder instead of holding it.

    Its content security policy allows two scripts and one style by their hashes, a worker made of one of these scripts,
    and WebAssembly; no request but for the `neighbour`, no frame, no form. Raises `UsageError` for another language.
    """
    data = {
        "name": model.name,
        "task": model.task,
        "sourceLanguage": model.languages[0],
        "targetLanguage": model.languages[1],
        "sentences": [],
        "examples": list(examples),
        "lesson": lesson,
        "guided": model.details.get("guided"),
        "weights": neighbour and {"file": neighbour[0], "size": len(neighbour[1]), "check": zlib.crc32(neighbour[1])},
    }
    scripts = {
        "ENGINE": in_one_scope([service_script()]),
        "SCRIPT": page_script([asset(f"page/{name}") for name in LIVE_SCRIPTS]),
    }
    style = shared_asset("page.css") + asset("page/live.css")
    contents = {
        "DATA": inert(json.dumps(data, ensure_ascii=True)),
        "CORE": base64.b64encode(core_bytes()).decode("ascii"),
        "MODEL": "" if neighbour else seven_bit_text(gzip.compress(model.encode(), 9, mtime=0)),
    }
    return fill(
        asset("page/live.html"),
        language,
        style,
        scripts,
        contents,
        scripts_may="'wasm-unsafe-eval'",
        policy_end="worker-src blob:; " + ("connect-src 'self'; " if neighbour else ""),
    )
