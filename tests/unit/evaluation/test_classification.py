"""Scores of classes against scikit-learn, which is asked only where it is installed, and against hand counts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.message_templates import SOURCES

from dikkat.evaluation.classification import class_scores, label_scores
from dikkat_runtime.localization import add_catalogs, localized

add_catalogs(SOURCES["dikkat"])

LABELS = ("a", "b", "c")


def test_a_hand_count() -> None:
    # class a: 2 of 3 right, one b taken for it; class c never guessed right
    result = class_scores(LABELS, [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 1])
    assert result.confusion.tolist() == [[2, 1, 0], [1, 1, 0], [0, 1, 0]]
    assert result.accuracy == pytest.approx(3 / 6)
    assert result.precision.tolist() == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert result.recall.tolist() == pytest.approx([2 / 3, 1 / 2, 0.0])
    assert result.f1.tolist() == pytest.approx([2 / 3, 2 / 5, 0.0])
    assert result.macro_f1 == pytest.approx((2 / 3 + 2 / 5) / 3)
    assert result.majority == pytest.approx(3 / 6)


def test_a_class_that_never_occurs_is_not_in_the_mean() -> None:
    assert class_scores(LABELS, [0, 1], [0, 1]).macro_f1 == 1.0


def test_as_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    wanted, guessed = generator.integers(0, 3, 200), generator.integers(0, 3, 200)
    result = class_scores(LABELS, wanted.tolist(), guessed.tolist())
    assert result.confusion.tolist() == metrics.confusion_matrix(wanted, guessed).tolist()
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(wanted, guessed)
    np.testing.assert_allclose(result.precision, precision)
    np.testing.assert_allclose(result.recall, recall)
    np.testing.assert_allclose(result.f1, f1)
    assert result.macro_f1 == pytest.approx(metrics.f1_score(wanted, guessed, average="macro"))


def test_the_table_tells_counts_and_shares() -> None:
    lines = class_scores(("neg", "pos"), [0] * 3 + [1] * 5, [0, 0, 1, 1, 1, 1, 1, 0]).lines()
    assert lines[0] == "accuracy 75.00 %  (6 of 8 texts; the most frequent class alone 62.50 %)"
    assert [line.split() for line in lines if line.startswith("pos")] == [
        ["pos", "80.00", "80.00", "80.00", "5"],
        ["pos", "1", "4"],
    ]


@pytest.mark.parametrize("labels", [("neg", "pos"), ("a very long name of a class", "b")])
@pytest.mark.parametrize("language", ["en", "tr"])
def test_headings_stand_above_their_columns(labels: tuple[str, ...], language: str) -> None:
    by_class = class_scores(labels, [0, 0, 1], [0, 1, 1]).lines()
    by_label = label_scores(labels, np.eye(2, dtype=bool), np.eye(2, dtype=bool)).lines()
    for table, numbers in ((by_class[3:6], 4), (by_class[7:10], 2), (by_label[4:7], 4)):
        heading, *rows = (localized(line, language) for line in table)
        ends = [{found.end() for found in re.finditer(r"\S+", line)} for line in (heading, *rows)]
        # each number ends below the end of a word of the heading
        assert [end for row in ends[1:] for end in sorted(row)[-numbers:] if end not in ends[0]] == []


def test_the_scores_are_told_in_turkish() -> None:
    lines = [localized(line, "tr") for line in class_scores(("neg", "pos", "none"), [0, 1], [0, 0]).lines()]
    assert lines[:2] == [
        "doğruluk %50.00  (2 metinden 1; yalnızca en sık sınıf %50.00)",
        "makro F1 %33.33 (3 etiketten 2 tanesinde; metni olmayanlar: none)",
    ]
    assert lines[3].split() == ["sınıf", "kesinlik", "duyarlılık", "F1", "metin"]
    assert lines[-4].split()[:3] == ["asıl", "\\", "sanılan"]
