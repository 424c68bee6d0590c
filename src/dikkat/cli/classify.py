"""`dikkat classify`: lines in, labels out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dikkat.cli.engine_option import DEVICE_HELP, ENGINE_HELP, PRECISION_HELP, print_engine
from dikkat.cli.input_lines import InputLines
from dikkat.cli.streams import print_written
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg, plural

if TYPE_CHECKING:
    from dikkat.tasks.classification.classifier import Classifier
    from dikkat.tasks.classification.decisive_words import DecisiveWords
    from dikkat_runtime.tasks.classifier import Classification
    from dikkat_runtime.tasks.classifier import Classifier as RuntimeClassifier

WINDOW = 1024
WORDS_HEADING = msg(
    "label\tprobability\twords that decided (nats the label loses without)\twords looked at (attention)"
)
PARTS_HEADING = msg(
    "label\tprobability\twords that decided (nats the label loses without)\twords looked at (attention)\tlead over the "
    "next class, by part (nats)"
)


def classify(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="Text, one a line; standard input if absent.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Label and probability of every class, likeliest first.")] = False,
    words: Annotated[int, typer.Option(min=0, help="Words that decided, as two more columns; see below.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the words that decided (.png, .svg); for one line.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts classified at once.")] = 64,
    precision: Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)] = "auto",
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Classify the lines of FILE or standard input: label, tab, probability, one line for each.

    A line without words gets an empty label and nan. A classifier of any number of labels writes those whose
    probability reaches the cut that was found for the label in training, the likeliest first, each followed by its
    probability; an empty line has none. With --words N two columns follow: the N words without which the label would
    lose (+) or gain (-) most, in nats of log-odds, and the N that got most attention, in percent; standard error names
    the columns. Where a table of words and word pairs decides together with the encoder, to which no attention leads, a
    third column says what each adds to the lead of the label.
    """
    if all_ and words:
        raise UsageError("--words explains one label; leave out --all")
    if words or picture is not None:
        return _explain_lines(run, file, words, picture, precision, device, engine)
    from dikkat.tasks.classification.opening import open_classifier
    from dikkat_runtime.tasks.classifier import written

    classifier = open_classifier(run, engine, precision, device)
    print_engine(classifier.info)
    lines = InputLines(file)
    interactive = file is None and sys.stdin.isatty()
    window = 1 if interactive else WINDOW
    remarks = _Remarks(classifier)
    for number, answer in enumerate(classifier.stream(lines, batch_size=batch_size, window=window), start=1):
        sys.stdout.write(written(answer, answer.probabilities if all_ else answer.labels) + "\n")
        remarks.note(number, answer)
        if interactive or number % window == 0:
            sys.stdout.flush()
    sys.stdout.flush()
    remarks.write()
    return lines.finish()


def _explain_lines(
    run: Path,
    file: Path | None,
    words: int,
    picture: Path | None,
    precision: PrecisionName,
    device: Device,
    engine: EngineName,
) -> None:
    option = "--words" if words else "--picture"
    if engine == "native" or precision in ("int8", "float16") or device != "cpu":
        raise UsageError(
            "{option} needs the torch engine on the processor; leave out --engine, --precision, --device"
        ).fill(option)
    from dikkat.tasks.classification.classifier import Classifier

    classifier = Classifier.load(run, engine="torch")
    if classifier.is_multi_label:
        raise UsageError("{option} explains one class; {run} gives a text any number of labels, so leave it out").fill(
            option, run
        )
    print_engine(classifier.info)
    lines = InputLines(file)
    _explain(classifier, lines, words, picture)
    return lines.finish()


class _Remarks:
    """What has to be said of lines that were not read as they are; counted, since there may be millions."""

    def __init__(self, classifier: RuntimeClassifier) -> None:
        self.most, self.beginning = classifier.max_tokens, classifier.beginning
        self.counts: dict[str, tuple[int, int]] = {}

    def note(self, number: int, answer: Classification) -> None:
        """Remember the line `number` if there is something to say of it."""
        most, first = self.most, round(self.most * self.beginning)
        if not answer.label:
            self._count(msg("without words: no label"), number)
        elif answer.num_tokens > most:
            self._count(
                msg("of more than {most} tokens: only the first {first} and the last {most2} read").fill(
                    most, first, most - first
                ),
                number,
            )

    def write(self) -> None:
        """Write it to standard error."""
        for what, (count, first) in self.counts.items():
            lines, where = plural(count, "line"), msg("line {first}").fill(first)
            print(msg("{lines} {what} ({where})").fill(lines, what, where), file=sys.stderr)

    def _count(self, what: str, number: int) -> None:
        count, first = self.counts.get(what, (0, number))
        self.counts[what] = (count + 1, first)


def _explain(classifier: Classifier, lines: Iterable[str], most: int, picture: Path | None) -> None:
    from dikkat.explain.class_pictures import plot_words
    from dikkat.tasks.classification.decisive_words import decisive_words
    from dikkat_runtime.tasks.classifier import written

    if most:
        # not among the results: as many lines come out as went in
        print(WORDS_HEADING if classifier.model.ngram_table is None else PARTS_HEADING, file=sys.stderr)
    remarks = _Remarks(classifier)
    for number, line in enumerate(lines, start=1):
        if picture is not None and (number > 1 or not line.strip()):
            raise UsageError("{picture}: a picture shows one text; give one line that is not empty").fill(picture)
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
    return "\t" + localized(msg("encoder {encoder:+.2f}, table {table:+.2f}").fill(encoder, table))
