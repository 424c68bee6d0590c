"""Lines of many answers, written at once, against the answers one by one."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat_runtime.cli.classify import Remarks
from dikkat_runtime.tasks.classifier import NOTHING, Answers, Classification

CLASSES = ("b", "a", "c")


def answers_of(seed: int, *, is_multi_label: bool = False) -> Answers:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet((0.4, 0.4, 0.4), 60)
    # equal ones, of which the first in the order of training comes first
    shares[:3] = 1 / 3
    order = np.argsort(-shares, axis=1, kind="stable")
    chosen = [[row[0]] for row in order.tolist()]
    if is_multi_label:
        chosen = [[row for row in own if share[row] > 0.3] for own, share in zip(order.tolist(), shares, strict=True)]
    has_words, is_unlike = generator.random((2, 60)) < [[0.8], [0.3]]
    return Answers(CLASSES, shares, chosen, np.where(has_words, generator.integers(1, 60, 60), 0), has_words, is_unlike)


def line_of(answer: Classification, abstain: float, *, has_all: bool) -> str:
    if answer is NOTHING:
        return "\tnan"
    if abstain and (answer.is_unlike_training or answer.probability < abstain):
        return f"\t{answer.probability:.4f}"
    labels = sorted(CLASSES, key=lambda label: -answer.probabilities[label]) if has_all else answer.labels
    return "\t".join(f"{label}\t{answer.probabilities[label]:.4f}" for label in labels)


@pytest.mark.parametrize("abstain", [0.0, 0.6])
@pytest.mark.parametrize("has_all", [False, True])
@pytest.mark.parametrize("is_multi_label", [False, True])
def test_lines_are_those_of_the_answers_one_by_one(abstain: float, has_all: bool, is_multi_label: bool) -> None:
    answers = answers_of(1, is_multi_label=is_multi_label)
    rows = list(answers.rows())
    assert answers.written(abstain, has_all=has_all) == [line_of(row, abstain, has_all=has_all) for row in rows]
    assert rows.count(NOTHING) == 60 - answers.has_words.sum() > 0
    for row, share, size, unlike in zip(rows, answers.shares, answers.num_tokens, answers.is_unlike, strict=True):
        if row is not NOTHING:
            assert (row.probability, row.label) == (share.max(), CLASSES[int(share.argmax())])
            assert (tuple(row.probabilities.values()), row.num_tokens, row.is_unlike_training) == (
                tuple(share), size, unlike,
            )  # fmt: skip


def test_remarks_count_the_lines_of_several_windows(capsys: pytest.CaptureFixture[str]) -> None:
    class Reader:
        max_tokens, beginning = 40, 0.25

    remarks = Remarks(Reader(), 0.6)  # type: ignore[arg-type]
    windows = [answers_of(2), answers_of(3)]
    for number, answers in enumerate(windows):
        remarks.note(1 + 60 * number, answers)
    remarks.write()
    lines: dict[str, list[int]] = {}
    for number, row in enumerate((row for answers in windows for row in answers.rows()), start=1):
        if row is NOTHING:
            lines.setdefault("without words: no label", []).append(number)
            continue
        if row.is_unlike_training:
            lines.setdefault("unlike the training texts, with mostly new words: doubt the label", []).append(number)
        elif row.probability < 0.6:
            lines.setdefault("less likely than 0.6: label withheld", []).append(number)
        if row.num_tokens > 40:
            what = "of more than 40 tokens: only the first 10 and the last 30 are read"
            lines.setdefault(what, []).append(number)
    expected = [f"{len(numbers)} lines {what} (line {numbers[0]})" for what, numbers in lines.items()]
    assert capsys.readouterr().err.splitlines() == expected
    assert len(expected) == 4
