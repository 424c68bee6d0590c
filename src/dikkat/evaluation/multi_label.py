"""Score predicted sets of labels: micro and macro F1, subset accuracy, and the scores of each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.evaluation.classification import macro_f1_note


@dataclass(frozen=True, slots=True, eq=False)
class LabelScores:
    """Hold counts of predicted labels; scores are shares from 0 to 1, defined as in scikit-learn."""

    labels: tuple[str, ...]
    right: NDArray[np.int64]
    """(C,), texts that have a label and got it."""
    predicted: NDArray[np.int64]
    """(C,), texts that got a label."""
    wanted: NDArray[np.int64]
    """(C,), texts that have a label."""
    texts: int
    exact: int
    """Texts that got all their labels and no other."""

    @property
    def precision(self) -> NDArray[np.float64]:
        """Return (C,), the right ones among those predicted; 0 where there are none."""
        return np.asarray(self.right / np.maximum(self.predicted, 1))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Return (C,), the right ones among those wanted; 0 where there are none."""
        return np.asarray(self.right / np.maximum(self.wanted, 1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """Return (C,), the harmonic mean of both; 0 where a label neither occurs nor is predicted."""
        return np.asarray(2 * self.right / np.maximum(self.predicted + self.wanted, 1))

    @property
    def micro_f1(self) -> float:
        """Return the F1 of all decisions together; 1 where no label occurs and none is predicted."""
        total = int(self.predicted.sum() + self.wanted.sum())
        return 2 * int(self.right.sum()) / total if total else 1.0

    @property
    def macro_f1(self) -> float:
        """Return the mean F1 over the labels that some text has or got."""
        occurs = (self.predicted + self.wanted) > 0
        return float(self.f1[occurs].mean()) if occurs.any() else 1.0

    @property
    def subset_accuracy(self) -> float:
        """Return the share of texts with all their labels and no other."""
        return self.exact / self.texts

    def lines(self) -> list[str]:
        """Return the scores of all, then a line for each label."""
        width = max(len("label"), *map(len, self.labels))
        rows = zip(self.labels, self.precision, self.recall, self.f1, self.wanted, strict=True)
        return [
            f"micro F1 {100 * self.micro_f1:.2f} %",
            f"macro F1 {100 * self.macro_f1:.2f} %{macro_f1_note(self.labels, self.wanted, self.predicted)}",
            f"subset accuracy {100 * self.subset_accuracy:.2f} %  ({self.exact:,} of {self.texts:,} texts got their"
            " labels exactly)",
            "",
            f"{'label':{width}}  precision  recall      F1   texts",
            *(
                f"{label:{width}}  {100 * precision:9.2f}  {100 * recall:6.2f}  {100 * f1:6.2f}  {texts:6,}"
                for label, precision, recall, f1, texts in rows
            ),
        ]


def label_scores(labels: Sequence[str], wanted: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> LabelScores:
    """Score the predicted labels `predicted` (N, C) against the right ones `wanted` (N, C)."""
    return LabelScores(
        tuple(labels),
        (wanted & predicted).sum(axis=0),
        predicted.sum(axis=0),
        wanted.sum(axis=0),
        len(wanted),
        int((wanted == predicted).all(axis=1).sum()),
    )
