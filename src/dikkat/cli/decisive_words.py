"""Tell the words that decided a class: --words and --picture of `dikkat classify`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.cli.classify import Remarks
from dikkat_runtime.cli.opening import EngineOptions, print_engine
from dikkat_runtime.cli.streams import print_written
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import translated

if TYPE_CHECKING:
    from dikkat.tasks.classification.decisive_words import DecisiveWords
    from dikkat_runtime.tasks.classifier import Classifier

WORDS_HEADING = msg(
    "label\tprobability\twords that decided (nats the label loses without)\twords looked at (attention)"
)
PARTS_HEADING = msg(
    "label\tprobability\twords that decided (nats the label loses without)\twords looked at (attention)\tlead over the "
    "next class, by part (nats)"
)


def explain(
    run: Path, lines: Iterable[str], words: int, picture: Path | None, option: str, choice: EngineOptions
) -> None:
    """Classify lines, with the words that decided; `option` is the one that asks for it."""
    if choice.engine == "native" or choice.precision in ("int8", "float16") or choice.device != "cpu":
        raise UsageError(
            "{option} needs the torch engine on the processor; leave out --engine, --precision, --device", option
        )
    from dikkat_runtime.tasks.classifier import Classifier

    classifier = Classifier.load(run, engine="torch")
    if classifier.is_multi_label:
        raise UsageError(
            "{option} explains one class; {run} gives a text any number of labels, so leave it out", option, run
        )
    print_engine(classifier.info)
    _explain(classifier, lines, words, picture)


def _explain(classifier: Classifier, lines: Iterable[str], most: int, picture: Path | None) -> None:
    from dikkat.explain.plots import plot_words
    from dikkat.tasks.classification.decisive_words import decisive_words
    from dikkat_runtime.tasks.classifier import written

    if most:
        # not among the results: as many lines come out as went in
        print(WORDS_HEADING if classifier.model.ngram_table is None else PARTS_HEADING, file=sys.stderr)
    remarks = Remarks(classifier)
    for number, line in enumerate(lines, start=1):
        if picture is not None and (number > 1 or not line.strip()):
            raise UsageError("{picture}: a picture shows one text; give one line that is not empty", picture)
        explained = decisive_words(classifier, line) if line.strip() else None
        answer = explained.answer if explained else classifier.classify([line])[0]
        columns = _columns(explained, most) if explained and most else ""
        print(written(answer, answer.labels) + columns, flush=True)
        remarks.note(number, answer)
        if picture is not None and explained is not None:
            title = f"{answer.label} ({100 * answer.probability:.1f} %)"
            plot_words(explained.words, explained.occlusion, explained.attention, picture, title)
            print_written(picture)
    remarks.write()


def _columns(explained: DecisiveWords, most: int) -> str:
    effects = sorted(zip(explained.words, explained.occlusion, strict=True), key=lambda pair: -abs(pair[1]))[:most]
    looked_at = sorted(zip(explained.words, explained.attention, strict=True), key=lambda pair: -pair[1])[:most]
    left = ", ".join(f"{word} {effect:+.2f}" for word, effect in effects)
    right = ", ".join(f"{word} {100 * share:.1f}%" for word, share in looked_at)
    return f"\t{left}\t{right}{_parts(explained.leads)}"


def _parts(leads: Sequence[float]) -> str:
    if len(leads) == 1:
        return ""
    encoder, table = leads
    return "\t" + translated("encoder {encoder:+.2f}, table {table:+.2f}", encoder, table)
