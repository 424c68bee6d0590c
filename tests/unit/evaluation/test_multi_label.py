"""Scores of any number of labels against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.evaluation.calibration import fit_label_temperature, label_probabilities
from dikkat.evaluation.classification import label_scores

LABELS = ("a", "b", "c", "d")


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_scikit_learn(seed: int) -> None:
    # here, so that only the worker that runs it loads scikit-learn
    from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

    generator = np.random.default_rng(seed)
    wanted, result = (generator.random((60, 4)) < share for share in (0.4, 0.5))
    scores = label_scores(LABELS, wanted, result)
    assert scores.micro_f1 == pytest.approx(f1_score(wanted, result, average="micro"))
    assert scores.macro_f1 == pytest.approx(f1_score(wanted, result, average="macro"))
    assert scores.subset_accuracy == pytest.approx(accuracy_score(wanted, result))
    precision, recall, f1, support = precision_recall_fscore_support(wanted, result, zero_division=0)
    for ours, theirs in zip(
        (scores.precision, scores.recall, scores.f1, scores.wanted), (precision, recall, f1, support), strict=True
    ):
        np.testing.assert_allclose(ours, theirs)


def test_a_label_that_never_occurs_is_named_and_left_out() -> None:
    wanted = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
    scores = label_scores(("a", "b", "never"), wanted, wanted)
    assert (scores.micro_f1, scores.macro_f1, scores.subset_accuracy) == (1.0, 1.0, 1.0)
    assert scores.lines()[1] == "macro F1 100.00 % over 2 of 3 (no text of: never)"
    nothing = np.zeros((2, 3), bool)
    assert label_scores(("a", "b", "c"), nothing, nothing).micro_f1 == 1.0


def test_calibrated_probabilities_are_a_logistic_function() -> None:
    logits = np.array([[-800.0, 0.0, 2.0], [3.0, -1.0, 800.0]])
    np.testing.assert_allclose(label_probabilities(logits[:, 1:2], 2.0), 1 / (1 + np.exp(-logits[:, 1:2] / 2.0)))
    assert np.isfinite(label_probabilities(logits)).all()
    generator = np.random.default_rng(1)
    true = generator.normal(size=(4000, 3))
    wanted = generator.random(true.shape) < label_probabilities(true)
    assert fit_label_temperature(5.0 * true, wanted) == pytest.approx(5.0, rel=0.1)
