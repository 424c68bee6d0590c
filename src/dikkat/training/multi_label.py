"""The task of a classifier whose texts have any number of labels: a yes or no for each, validated by micro F1."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dikkat.data.corpus import Corpus
from dikkat.evaluation.calibration import fit_label_temperature, label_probabilities
from dikkat.evaluation.cuts import label_cuts
from dikkat.evaluation.multi_label import label_scores
from dikkat.kernels.device import to_device
from dikkat.models.classifier import EncoderClassifier
from dikkat.training.classification import ClassificationTask
from dikkat.training.task import Baseline, Validation
from dikkat_runtime.messages import msg


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

    def baseline(self) -> Baseline:
        """Return the score of giving every text the one label for which that is best."""
        wanted = _has_label(self._validation, self._rows, len(self.labels))
        counts = wanted.sum(axis=0)
        commonest = int(counts.argmax())
        score = 100 * 2 * counts[commonest] / max(1, len(wanted) + int(counts.sum()))
        return Baseline(
            float(score), 1.0, msg("saying “{labels}” of every text ({score:.2f})").fill(self.labels[commonest], score)
        )

    @property
    def absent_classes(self) -> tuple[str, ...]:
        """Labels that no text that is validated on has."""
        counts = _has_label(self._validation, self._rows, len(self.labels)).sum(axis=0)
        return tuple(label for label, number in zip(self.labels, counts, strict=True) if not number)

    def _losses(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        wanted = _has_label(self._validation, self._rows, len(self.labels))
        return np.asarray((np.logaddexp(0.0, logits) - logits * wanted).sum(axis=1))

    def _validated(self, logits: NDArray[np.float64], number: int) -> Validation:
        wanted = _has_label(self._validation, self._rows, len(self.labels))
        loss = float(self._losses(logits).mean())
        if not math.isfinite(loss):
            return Validation.broken(loss)
        temperature = fit_label_temperature(logits, wanted)
        chances = label_probabilities(logits, temperature)
        cuts = self._cuts(chances, wanted)
        predicted = chances >= cuts
        scores = label_scores(self.labels, wanted, predicted)
        columns = {
            "micro_f1": 100 * scores.micro_f1,
            "macro_f1": 100 * scores.macro_f1,
            "subset_accuracy": 100 * scores.subset_accuracy,
            "temperature": temperature,
        }
        index = number * 7 % len(wanted)
        shown = self._shown(index, self._names(predicted[index]), self._names(wanted[index]))
        score = columns["micro_f1"]
        recorded = {f"cut_{label}": cut for label, cut in enumerate(cuts.tolist())}
        is_meaningful = score > self.baseline().score
        return Validation(loss, columns, score, shown, is_meaningful, recorded)

    def _cuts(self, chances: NDArray[np.float64], wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the cut (C,) of each label, by the validation texts and what the table says of the training texts."""
        if self.table is not None:
            held_out = label_probabilities(self.table.train)
            chances = np.concatenate((chances, held_out))
            wanted = np.concatenate((wanted, _has_label(self.corpus, np.arange(len(self.corpus)), len(self.labels))))
        return label_cuts(chances, wanted, self.settings.precision_at)

    def _names(self, row: NDArray[np.bool_]) -> str:
        return ", ".join(label for label, has in zip(self.labels, row, strict=True) if has) or msg("(no label)")


def _has_label(corpus: Corpus, indices: NDArray[np.int64], num_labels: int) -> NDArray[np.bool_]:
    """Return (B, C): whether each text has each label."""
    labels, lengths = corpus.gather(indices, "target")
    has_label = np.zeros((len(indices), num_labels), bool)
    has_label[np.repeat(np.arange(len(indices)), lengths), labels] = True
    return has_label


def begin_with_shares(model: EncoderClassifier, corpus: Corpus, num_labels: int) -> None:
    """Let the output layer begin with the log-odds of each label in `corpus`, so that a rare one begins as rare."""
    wanted = np.zeros(num_labels)
    for index in range(len(corpus)):
        wanted[np.asarray(corpus.target(index), np.int64)] += 1.0
    shares = (wanted + 0.5) / (len(corpus) + 1.0)
    if model.output.bias is not None:
        with torch.no_grad():
            model.output.bias.copy_(torch.from_numpy(np.log(shares / (1.0 - shares))).float())
