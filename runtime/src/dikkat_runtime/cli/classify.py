"""`dikkat classify`: lines in, labels out."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat_runtime.cli.opening import ENGINE, EngineOptions, JsonOption, open_model, print_engine, toolkit_module
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import InputLines, is_interactive, print_json, print_note
from dikkat_runtime.errors import UsageError, msg, plural
from dikkat_runtime.localization import localized, translated
from dikkat_runtime.run.config import KINDS, read_config

if TYPE_CHECKING:
    from dikkat_runtime.native.arrays import Array
    from dikkat_runtime.tasks.classifier import Answers, Classifier, Regressor
    from dikkat_runtime.tasks.decisive_words import DecisiveWords
    from dikkat_runtime.tasks.tagger import Tagger

WINDOW = 1024
WORDS_HEADING = msg("label\tprobability\twords that decided (nats the label loses without)")
LABELS_HEADING = msg("labels, each with its probability\twords that decided (nats the label loses without)")
PART_HEADING = msg("lead over the next class, by part (nats)")


def classify(
    run: Annotated[Path, Argument(help="Run directory.")],
    file: Annotated[Path | None, Argument(help="Text, one per line; standard input if absent.")] = None,
    all_: Annotated[bool, Option("--all", help="Label and probability of every class, likeliest first.")] = False,
    words: Annotated[int, Option(min=0, help="Words that decided, as one more column; see below.")] = 0,
    picture: Annotated[Path | None, Option(help="Draw the words that decided (.png, .svg); for one line.")] = None,
    abstain: Annotated[
        float,
        Option(
            min=0.0,
            max=1.0,
            help="No label where its probability is lower, or where the text is unlike those of training.",
        ),
    ] = 0.0,
    batch_size: Annotated[int, Option(min=1, help="Texts classified at once.")] = 1024,
    choice: EngineOptions = ENGINE,
    as_json: JsonOption = False,
) -> None:
    """Classify the lines of FILE or standard input: label, tab, probability, one line for each.

    A line without words gets an empty label and nan. A classifier of any number of labels writes those whose
    probability reaches the threshold that training found for the label, the likeliest first, with a probability after
    each; an empty line has none. With --words N a column follows: the N words without which the label would
    lose (+) or gain (-) most, in nats of log-odds; standard error names the columns. Where a table of words decides
    next to the encoder, another says what each adds to the lead of the label. With --engine torch the N words that got
    most attention come before it, in percent. Lines whose words are mostly new, as in another language, are counted
    on standard error.

    An imported tagger writes the spans that it marks, a tab between them: label, first and last offset, probability
    and text. An imported regression writes its numbers.
    """
    if all_ and words:
        raise UsageError("--words explains one label; leave out --all")
    if as_json and (words or picture is not None):
        raise UsageError("--json holds labels and probabilities; leave out --words and --picture")
    lines = InputLines(file)
    window = 1 if is_interactive(file) else WINDOW
    if (kind := read_config(run, "classifier", "tagger", "regressor")["task"]) != "classifier":
        asked = {"--all": all_, "--words": words, "--picture": picture, "--abstain": abstain}
        if option := next((name for name, value in asked.items() if value), None):
            raise UsageError("{option} is for a classifier, but {run} holds {kind}", option, run, KINDS[kind])
        model = open_model("Tagger" if kind == "tagger" else "Regressor", run, choice)
        _answer(model, lines, batch_size, window, as_json)
        return lines.finish()
    if picture is not None or (words and choice.engine == "torch"):
        option = "--words" if words else "--picture"
        toolkit_module("decisive_words", option).explain(run, lines, words, picture, option, choice, abstain)
        return lines.finish()
    classifier = open_model("Classifier", run, choice)
    print_engine(classifier.info)
    require_one_label(classifier, run, abstain)
    remarks = Remarks(classifier, abstain)
    if words:
        _explain(classifier, lines, words, remarks)
        return lines.finish()
    _classify(classifier, lines, batch_size, window, remarks, has_all=all_, as_json=as_json)
    return lines.finish()


def _classify(
    classifier: Classifier,
    lines: InputLines,
    batch_size: int,
    window: int,
    remarks: Remarks,
    *,
    has_all: bool,
    as_json: bool,
) -> None:
    """Write the labels of each line, with `has_all` those of every class."""
    abstain, number = remarks.abstain, 1
    for answers in classifier.answers(lines, batch_size, window):
        if not as_json:
            sys.stdout.write("\n".join(answers.written(abstain, has_all=has_all)) + "\n")
        for line, answer in enumerate(answers.rows() if as_json else (), start=number):
            is_sure = answer.label and (not abstain or answer.is_sure(abstain))
            labels = answer.labels if is_sure else ()
            print_json({"line": line, "labels": labels, "probabilities": answer.probabilities}, indent=None)
        remarks.note(number, answers)
        number += len(answers.chosen)
        sys.stdout.flush()
    remarks.write()


def _answer(model: Tagger | Regressor, lines: InputLines, batch_size: int, window: int, as_json: bool) -> None:
    """Write the spans, or the numbers, of each line."""
    from dikkat_runtime.tasks.tagger import written

    print_engine(model.info)
    answers: Iterator[Any] = model.stream(lines, batch_size=batch_size, window=window)
    for number, answer in enumerate(answers, start=1):
        if as_json:
            print_json({"line": number, "numbers" if isinstance(answer, dict) else "spans": answer}, indent=None)
        elif isinstance(answer, dict):
            sys.stdout.write("\t".join(f"{value:.4f}" for value in answer.values() or (math.nan,)) + "\n")
        else:
            sys.stdout.write(written(answer) + "\n")
        if number % window == 0:
            sys.stdout.flush()
    sys.stdout.flush()


def require_one_label(classifier: Classifier, run: Path, abstain: float) -> None:
    """Raise `UsageError` where a text may have several labels, of which none is the one to withhold."""
    if abstain and classifier.is_multi_label:
        raise UsageError(
            "--abstain withholds the one label of a text; {run} gives any number, each with its own threshold: leave it"
            " out, or train with --precision-at"
        ).fill(run)


def _explain(classifier: Classifier, lines: InputLines, most: int, remarks: Remarks) -> None:
    """Write lines with the words that decided."""
    from dikkat_runtime.tasks.decisive_words import decisive_words

    # not among the results: as many lines come out as went in
    heading = LABELS_HEADING if classifier.is_multi_label else WORDS_HEADING
    parts = "" if classifier.table is None or classifier.is_multi_label else "\t" + localized(PART_HEADING)
    print(localized(heading) + parts, file=sys.stderr)
    for number, line in enumerate(lines, start=1):
        (answers,) = classifier.answers([line])
        explained = decisive_words(classifier, line) if answers.has_words[0] else []
        columns = f"\t{listed_words(explained, most)}{lead_column(explained[0].leads)}" if explained else ""
        print(answers.written(remarks.abstain)[0] + columns, flush=True)
        remarks.note(number, answers)
    remarks.write()


def listed_words(explained: list[DecisiveWords], most: int) -> str:
    """Return the words that decided, with the label before them where there may be several."""
    rows = [", ".join(f"{word} {effect:+.2f}" for word, effect in one.strongest(most)) for one in explained]
    names = [f"{one.label}: " if len(explained) > 1 else "" for one in explained]
    return "; ".join(map(str.__add__, names, rows))


def lead_column(leads: tuple[float, ...]) -> str:
    """Return the column that says which part of the model leads by how much; nothing where there is one part."""
    if len(leads) < 2:
        return ""
    encoder, table = leads
    return "\t" + translated("encoder {encoder:+.2f}, table {table:+.2f}", encoder, table)


class Remarks:
    """Count the lines that were not read as they are, to tell of them at the end: there may be millions."""

    def __init__(self, classifier: Classifier, abstain: float = 0.0) -> None:
        self.abstain = abstain
        self.most, self.beginning = classifier.max_tokens, classifier.beginning
        self.counts: dict[str, tuple[int, int]] = {}

    def note(self, number: int, answers: Answers) -> None:
        """Remember the lines from `number` on of which there is something to say."""
        most, first, has_words = self.most, round(self.most * self.beginning), answers.has_words
        unlike, unsure = has_words & answers.is_unlike, has_words & (answers.shares.max(axis=1) < self.abstain)
        self._count(msg("without words: no label"), number, ~has_words)
        self._count(msg("unlike the training texts, with mostly new words: doubt the label"), number, unlike)
        self._count(msg("less likely than {minimum:g}: label withheld", self.abstain), number, unsure & ~unlike)
        cut = msg("of more than {limit} tokens: only the first {first} and the last {last} are read")
        self._count(cut.fill(most, first, most - first), number, answers.num_tokens > most)

    def write(self) -> None:
        for what, (count, first) in sorted(self.counts.items(), key=lambda item: item[1][1]):
            lines, where = localized(plural(count, "line")), translated("line {first}", first)
            print_note("{lines} {localized} ({where})", lines, localized(what), where)

    def _count(self, what: str, number: int, is_so: Array) -> None:
        if has_any := int(is_so.sum()):
            count, first = self.counts.get(what, (0, number + int(is_so.argmax())))
            self.counts[what] = (count + has_any, first)
