"""Tell the words that decided a class: --words and --picture of `dikkat classify`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.cli.classify import PART_HEADING, WORDS_HEADING, Remarks, lead_column, listed_words
from dikkat_runtime.cli.opening import EngineOptions, print_engine
from dikkat_runtime.cli.streams import print_written
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.tasks.classification.decisive_words import AttendedWords
    from dikkat_runtime.tasks.classifier import Classifier

ATTENTION_HEADING = msg("words looked at (attention)")


def explain(
    run: Path,
    lines: Iterable[str],
    words: int,
    picture: Path | None,
    option: str,
    choice: EngineOptions,
    abstain: float = 0.0,
) -> None:
    """Classify lines, with the words that decided and the attention; `option` is the one that asks for it."""
    if choice.engine == "native" or choice.precision in ("int8", "float16") or choice.device != "cpu":
        raise UsageError(
            "{option} with attention needs the torch engine on the processor; leave out --precision and --device",
            option,
        )
    from dikkat_runtime.tasks.classifier import Classifier

    classifier = Classifier.load(run, engine="torch")
    if classifier.is_multi_label:
        raise UsageError(
            "{option} explains one class; {run} gives a text any number of labels, so leave it out", option, run
        )
    print_engine(classifier.info)
    _explain(classifier, lines, words, picture, Remarks(classifier, abstain))


def _explain(classifier: "Classifier", lines: Iterable[str], most: int, picture: Path | None, remarks: Remarks) -> None:
    from dikkat.explain.plots import plot_words
    from dikkat.tasks.classification.decisive_words import decisive_words

    if most:
        # not among the results: as many lines come out as went in
        parts = [PART_HEADING] if classifier.table is not None else []
        print("\t".join(map(localized, [WORDS_HEADING, ATTENTION_HEADING, *parts])), file=sys.stderr)
    for number, line in enumerate(lines, start=1):
        if picture is not None and (number > 1 or not line.strip()):
            raise UsageError("{picture}: a picture shows one text; give one line that is not empty", picture)
        explained = decisive_words(classifier, line) if line.strip() else None
        (answers,) = classifier.answers([line])
        columns = _columns(explained, most) if explained and most else ""
        print(answers.written(remarks.abstain)[0] + columns, flush=True)
        remarks.note(number, answers)
        if picture is not None and explained is not None:
            title = f"{explained.answer.label} ({100 * explained.answer.probability:.1f} %)"
            plot_words(explained.words, explained.occlusion, explained.attention, picture, title)
            print_written(picture)
    remarks.write()


def _columns(explained: "AttendedWords", most: int) -> str:
    looked_at = sorted(zip(explained.words, explained.attention, strict=True), key=lambda pair: -pair[1])[:most]
    right = ", ".join(f"{word} {100 * share:.1f}%" for word, share in looked_at)
    return f"\t{listed_words([explained], most)}\t{right}{lead_column(explained.leads)}"
