"""The task of a classifier whose texts have any number of labels: a yes or no for each, validated by micro F1."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dikkat.data.corpus import Corpus
from dikkat.evaluation.calibration import fit_label_temperature
from dikkat.evaluation.multi_label import label_scores
from dikkat.kernels.device import to_device
from dikkat.training.classification import ClassificationTask
from dikkat.training.task import Validation


class MultiLabelTask(ClassificationTask):
    """Learns texts whose targets are the ids of their labels; see `Task`.

    The loss of a text is the sum of binary cross-entropies over all C labels. Label smoothing moves each yes and no by
    half of its share towards the other.
    """

    def _cross_entropy(
        self, logits: Tensor, indices: NDArray[np.int64], smoothing: float, *, is_weighted: bool = False
    ) -> Tensor:
        """Compute the sum of binary cross-entropies of training texts; labels have no weights here."""
        wanted = to_device(_has_label(self.corpus, indices, len(self.labels)), logits.device).float()
        smoothed = wanted * (1.0 - smoothing) + 0.5 * smoothing
        return F.binary_cross_entropy_with_logits(logits, smoothed, reduction="sum")

    def _validated(self, logits: NDArray[np.float64], number: int) -> Validation:
        wanted = _has_label(self._validation, self._rows, len(self.labels))
        losses = F.binary_cross_entropy_with_logits(
            torch.from_numpy(logits), torch.from_numpy(wanted).double(), reduction="sum"
        )
        loss = float(losses) / len(wanted)
        if not math.isfinite(loss):
            return Validation.broken(loss)
        predicted = logits >= 0.0
        scores = label_scores(self.labels, wanted, predicted)
        columns = {
            "micro_f1": 100 * scores.micro_f1,
            "macro_f1": 100 * scores.macro_f1,
            "subset_accuracy": 100 * scores.subset_accuracy,
            "temperature": fit_label_temperature(logits, wanted),
        }
        index = number * 7 % len(wanted)
        shown = self._shown(index, self._names(predicted[index]), self._names(wanted[index]))
        return Validation(loss, columns, columns["micro_f1"], shown)

    def _names(self, row: NDArray[np.bool_]) -> str:
        return ", ".join(label for label, has in zip(self.labels, row, strict=True) if has) or "(no label)"


def _has_label(corpus: Corpus, indices: NDArray[np.int64], num_labels: int) -> NDArray[np.bool_]:
    """Return (B, C): whether each text has each label."""
    labels, lengths = corpus.gather(indices, "target")
    has_label = np.zeros((len(indices), num_labels), bool)
    has_label[np.repeat(np.arange(len(indices)), lengths), labels] = True
    return has_label
