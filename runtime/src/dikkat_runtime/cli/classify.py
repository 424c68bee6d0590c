"""`dikkat classify`: lines in, labels out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dikkat_runtime.cli.engine_option import DeviceOption, EngineOption, PrecisionOption, ThreadsOption, print_engine
from dikkat_runtime.cli.input_lines import InputLines
from dikkat_runtime.cli.opening import EngineOptions, open_model, toolkit_module
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import is_interactive, print_note
from dikkat_runtime.errors import UsageError, msg, plural
from dikkat_runtime.localization import localized, translated

if TYPE_CHECKING:
    from dikkat_runtime.tasks.classifier import Classification, Classifier

WINDOW = 1024


def classify(
    run: Annotated[Path, Argument(help="Run directory.")],
    file: Annotated[Path | None, Argument(help="Text, one per line; standard input if absent.")] = None,
    all_: Annotated[bool, Option("--all", help="Label and probability of every class, likeliest first.")] = False,
    words: Annotated[int, Option(min=0, help="Words that decided, as two more columns; see below.")] = 0,
    picture: Annotated[Path | None, Option(help="Draw the words that decided (.png, .svg); for one line.")] = None,
    batch_size: Annotated[int, Option(min=1, help="Texts classified at once.")] = 64,
    precision: PrecisionOption = "auto",
    device: DeviceOption = "cpu",
    engine: EngineOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Classify the lines of FILE or standard input: label, tab, probability, one line for each.

    A line without words gets an empty label and nan. A classifier of any number of labels writes those whose
    probability reaches the threshold that training found for the label, the likeliest first, with a probability after
    each; an empty line has none. With --words N two columns follow: the N words without which the label would lose (+)
    or gain (-) most, in nats of log-odds, and the N that got most attention, in percent; standard error names the
    columns. Where a table of words and word pairs decides next to the encoder, to which no attention leads, a third
    column says what each adds to the lead of the label.
    """
    if all_ and words:
        raise UsageError("--words explains one label; leave out --all")
    choice, lines = EngineOptions(engine, precision, device, threads), InputLines(file)
    if words or picture is not None:
        option = "--words" if words else "--picture"
        toolkit_module("decisive_words", option).explain(run, lines, words, picture, option, choice)
        return lines.finish()
    from dikkat_runtime.tasks.classifier import written

    classifier = open_model("classifier", run, choice)
    print_engine(classifier.info)
    window = 1 if is_interactive(file) else WINDOW
    remarks = Remarks(classifier)
    for number, answer in enumerate(classifier.stream(lines, batch_size=batch_size, window=window), start=1):
        sys.stdout.write(written(answer, answer.probabilities if all_ else answer.labels) + "\n")
        remarks.note(number, answer)
        if number % window == 0:
            sys.stdout.flush()
    sys.stdout.flush()
    remarks.write()
    return lines.finish()


class Remarks:
    """Count the lines that were not read as they are, to tell of them at the end: there may be millions."""

    def __init__(self, classifier: Classifier) -> None:
        self.most, self.beginning = classifier.max_tokens, classifier.beginning
        self.counts: dict[str, tuple[int, int]] = {}

    def note(self, number: int, answer: Classification) -> None:
        """Remember the line `number` if there is something to say of it."""
        most, first = self.most, round(self.most * self.beginning)
        if not answer.label:
            self._count(msg("without words: no label"), number)
        elif answer.num_tokens > most:
            self._count(
                msg("of more than {limit} tokens: only the first {first} and the last {last} read").fill(
                    most, first, most - first
                ),
                number,
            )

    def write(self) -> None:
        """Write it to standard error."""
        for what, (count, first) in self.counts.items():
            lines, where = localized(plural(count, "line")), translated("line {first}", first)
            print_note("{lines} {localized} ({where})", lines, localized(what), where)

    def _count(self, what: str, number: int) -> None:
        count, first = self.counts.get(what, (0, number))
        self.counts[what] = (count + 1, first)
