"""Score predicted classes: accuracy, precision, recall, F1 and the confusion matrix.

Scores come from counts over all texts, never from means over batches (fault F13).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import msg

_CORNER = len("is \\ taken for")


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Counts of right answers by class or label; scores are shares from 0 to 1, defined as in scikit-learn."""

    labels: tuple[str, ...]
    right: NDArray[np.int64]
    """(C,), texts that have a label and got it."""
    predicted: NDArray[np.int64]
    """(C,), texts that got a label."""
    wanted: NDArray[np.int64]
    """(C,), texts that have a label."""

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
    def macro_f1(self) -> float:
        """Return the mean F1 over the labels that some text has or got."""
        occurs = (self.predicted + self.wanted) > 0
        return float(self.f1[occurs].mean()) if occurs.any() else 1.0

    def _table(self, kind: str) -> list[str]:
        """Return a heading and a line for each label, of which `kind` is the template of the heading."""
        width = max(len("label"), *map(len, self.labels))
        rows = zip(self.labels, self.precision, self.recall, self.f1, self.wanted, strict=True)
        return [
            msg(kind, " " * (width - len("label"))),
            *(
                f"{label:{width}}  {100 * precision:9.2f}  {100 * recall:10.2f}  {100 * f1:6.2f}  {texts:6,}"
                for label, precision, recall, f1, texts in rows
            ),
        ]

    def _macro_f1_line(self) -> str:
        """Return macro F1, and over how many it is the mean where some have no text: these count where predicted."""
        line = msg("macro F1 {score:.2f} %", 100 * self.macro_f1)
        missing = ", ".join(label for label, texts in zip(self.labels, self.wanted, strict=True) if not texts)
        if not missing:
            return line
        counted = int(((self.wanted + self.predicted) > 0).sum())
        return line + msg(" over {counted} of {labels} (no text of: {missing})", counted, len(self.labels), missing)


@dataclass(frozen=True, slots=True, eq=False)
class ClassScores(_Counts):
    """Hold the confusion matrix and the scores from it."""

    confusion: NDArray[np.int64]
    """(C, C), texts of class row that were predicted as class column."""

    @property
    def accuracy(self) -> float:
        """Return the share of texts whose class was predicted."""
        return float(self.right.sum() / self.wanted.sum())

    @property
    def majority(self) -> float:
        """Return the accuracy of always predicting the most frequent class of these texts."""
        return float(self.wanted.max() / self.wanted.sum())

    def lines(self) -> list[str]:
        """Return accuracy and F1, a line for each class, and the confusion matrix as a table."""
        width = max(_CORNER, *map(len, self.labels))
        cell = max(6, *map(len, self.labels), len(f"{self.confusion.max():,}"))
        return [
            msg(
                "accuracy {score:.2f} %  ({right:,} of {texts:,} texts; the most frequent class alone {majority:.2f} %)"
            ).fill(100 * self.accuracy, self.right.sum(), self.wanted.sum(), 100 * self.majority),
            self._macro_f1_line(),
            "",
            *self._table(msg("class{space}  precision      recall      F1   texts")),
            "",
            msg("is \\ taken for{space}  ", " " * (width - _CORNER))
            + "  ".join(f"{label:>{cell}}" for label in self.labels),
            *(
                f"{label:{width}}  " + "  ".join(f"{count:>{cell},}" for count in row)
                for label, row in zip(self.labels, self.confusion.tolist(), strict=True)
            ),
        ]


def class_scores(labels: Sequence[str], wanted: Sequence[int], predicted: Sequence[int]) -> ClassScores:
    """Score the predictions `predicted` for texts of the classes `wanted`, both as indices of `labels`."""
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (np.asarray(wanted, np.int64), np.asarray(predicted, np.int64)), 1)
    return ClassScores(tuple(labels), confusion.diagonal(), confusion.sum(0), confusion.sum(1), confusion)


# Score predicted sets of labels: micro and macro F1, subset accuracy, and the scores of each label.


@dataclass(frozen=True, slots=True, eq=False)
class LabelScores(_Counts):
    """Hold counts of predicted labels and the scores from them."""

    texts: int
    exact: int
    """Texts that got all their labels and no other."""

    @property
    def micro_f1(self) -> float:
        """Return the F1 of all decisions together; 1 where no label occurs and none is predicted."""
        total = int(self.predicted.sum() + self.wanted.sum())
        return 2 * int(self.right.sum()) / total if total else 1.0

    @property
    def subset_accuracy(self) -> float:
        """Return the share of texts with all their labels and no other."""
        return self.exact / self.texts

    def lines(self) -> list[str]:
        """Return the scores of all, then a line for each label."""
        return [
            msg("micro F1 {score:.2f} %", 100 * self.micro_f1),
            self._macro_f1_line(),
            msg("subset accuracy {score:.2f} %  ({exact:,} of {texts:,} texts got their labels exactly)").fill(
                100 * self.subset_accuracy, self.exact, self.texts
            ),
            "",
            *self._table(msg("label{space}  precision      recall      F1   texts")),
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


# Choose for each label the probability from which on a text gets it, by held-out texts.

MIN_TEXTS = 3
"""With fewer texts of a label than this, its cut is that of all labels together."""


def label_cuts(
    chances: NDArray[np.float64], wanted: NDArray[np.bool_], precision: float | None = None
) -> NDArray[np.float64]:
    """Return for each label the cut (C,) with the best F1, or the most texts of at least this `precision`.

    `chances` (N, C) are probabilities of held-out texts, `wanted` says which labels they have.
    """
    common = _cut(chances.reshape(-1), wanted.reshape(-1), precision)
    return np.array(
        [
            _cut(chances[:, label], wanted[:, label], precision) if count >= MIN_TEXTS else common
            for label, count in enumerate(wanted.sum(axis=0).tolist())
        ]
    )


def _cut(chances: NDArray[np.float64], wanted: NDArray[np.bool_], precision: float | None) -> float:
    order = np.argsort(-chances, kind="stable")
    ordered = chances[order]
    right, taken = np.cumsum(wanted[order]), np.arange(1, len(order) + 1)
    if not len(order) or not right[-1]:
        return 0.5
    # equal chances are taken together
    is_end = np.append(ordered[1:] < ordered[:-1], True)
    if precision is None:
        quality = 2.0 * right / (taken + right[-1])
    else:
        reaches = right >= precision * taken
        # where none is so precise, the most precise
        quality = np.where(reaches, right, 0.0) if (reaches & is_end).any() else right / taken
    best = int(np.where(is_end, quality, -1.0).argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else 0.0
    return float((ordered[best] + below) / 2)


# Weigh what an encoder adds to scores that are known already, by the loss of held-out texts.

MAX_WEIGHT, _STEPS = 1.5, 30
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_ERRORS = 1.0
"""Standard errors by which the mean loss must fall for the encoder to count."""


def encoder_weight(
    known: NDArray[np.float64], added: NDArray[np.float64], losses: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Return the weight w for which `known + w * added` (N, C) has the least mean of `losses` (N,), found by sections.

    It is 0 where the fall of the loss may be chance.
    """

    def loss(weight: float) -> float:
        return float(losses(known + weight * added).mean())

    low, high = 0.0, MAX_WEIGHT
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        # the loss is convex in the weight
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    weight = round((low + high) / 2, 4)
    falls = losses(known) - losses(known + weight * added)
    error = float(falls.std(ddof=1)) / math.sqrt(len(falls)) if len(falls) > 1 else math.inf
    return weight if float(falls.mean()) > _ERRORS * error else 0.0
