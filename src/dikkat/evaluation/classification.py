"""Score predicted classes: accuracy, precision, recall, F1 and the confusion matrix.

Scores come from counts over all texts, never from means over batches (fault F13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CORNER = "is \\ taken for"


@dataclass(frozen=True, slots=True, eq=False)
class ClassScores:
    """Hold the confusion matrix and the scores from it, shares from 0 to 1."""

    labels: tuple[str, ...]
    confusion: NDArray[np.int64]
    """(C, C), texts of class row that were predicted as class column."""

    @property
    def accuracy(self) -> float:
        """Return the share of texts whose class was predicted."""
        return float(self.confusion.trace() / self.confusion.sum())

    @property
    def precision(self) -> NDArray[np.float64]:
        """Return (C,), the right ones among those predicted as a class; 0 where there are none."""
        return np.asarray(self.confusion.diagonal() / np.maximum(self.confusion.sum(0), 1))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Return (C,), the right ones among those of a class; 0 where there are none."""
        return np.asarray(self.confusion.diagonal() / np.maximum(self.confusion.sum(1), 1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """Return (C,), the harmonic mean of precision and recall."""
        return np.asarray(2 * self.confusion.diagonal() / np.maximum(self.confusion.sum(0) + self.confusion.sum(1), 1))

    @property
    def macro_f1(self) -> float:
        """Return the mean F1 over the classes that occur among the texts or the predictions, like scikit-learn."""
        return float(self.f1[(self.confusion.sum(0) + self.confusion.sum(1)) > 0].mean())

    @property
    def majority(self) -> float:
        """Return the accuracy of always predicting the most frequent class of these texts."""
        return float(self.confusion.sum(1).max() / self.confusion.sum())

    def lines(self) -> list[str]:
        """Return accuracy and F1, a line for each class, and the confusion matrix as a table."""
        width = max(len("class"), *map(len, self.labels))
        support = self.confusion.sum(1)
        rows = zip(self.labels, self.precision, self.recall, self.f1, support, strict=True)
        cell = max(6, *map(len, self.labels), len(f"{self.confusion.max():,}"))
        return [
            f"accuracy {100 * self.accuracy:.2f} %  ({self.confusion.trace():,} of {support.sum():,} texts;"
            f" the most frequent class alone {100 * self.majority:.2f} %)",
            f"macro F1 {100 * self.macro_f1:.2f} %{macro_f1_note(self.labels, support, self.confusion.sum(0))}",
            "",
            f"{'class':{width}}  precision  recall      F1   texts",
            *(
                f"{label:{width}}  {100 * precision:9.2f}  {100 * recall:6.2f}  {100 * f1:6.2f}  {texts:6,}"
                for label, precision, recall, f1, texts in rows
            ),
            "",
            f"{_CORNER:{max(width, len(_CORNER))}}  " + "  ".join(f"{label:>{cell}}" for label in self.labels),
            *(
                f"{label:{max(width, len(_CORNER))}}  " + "  ".join(f"{count:>{cell},}" for count in row)
                for label, row in zip(self.labels, self.confusion.tolist(), strict=True)
            ),
        ]


def macro_f1_note(labels: Sequence[str], support: NDArray[np.int64], guesses: NDArray[np.int64]) -> str:
    """Return over how many classes a macro F1 is the mean, where some have no text.

    Classes without texts count only where they are predicted.
    """
    missing = [label for label, texts in zip(labels, support, strict=True) if not texts]
    if not missing:
        return ""
    counted = int(((support + guesses) > 0).sum())
    return f" over {counted} of {len(labels)} (no text of: {', '.join(missing)})"


def class_scores(labels: Sequence[str], wanted: Sequence[int], predicted: Sequence[int]) -> ClassScores:
    """Score the predictions `predicted` for texts of the classes `wanted`, both as indices of `labels`."""
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (np.asarray(wanted, np.int64), np.asarray(predicted, np.int64)), 1)
    return ClassScores(tuple(labels), confusion)
