"""The task of a classifier: texts and the index of their label, validated by accuracy and F1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import RunConfig
from dikkat.data.batching import BatchPlan
from dikkat.data.corpus import Corpus, Ids, Lengths
from dikkat.evaluation.calibration import fit_label_temperature, fit_temperature, label_probabilities, probabilities
from dikkat.evaluation.classification import class_scores, encoder_weight, label_cuts, label_scores
from dikkat.kernels.processor import to_device
from dikkat.models.classifier import EncoderClassifier
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import WHOLE, Baseline, BatchLoss, Part, Stop, Validation, never, share_out, spread
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.errors import msg

SHOWN_CHARACTERS = 160
MIN_TEXTS = 32
"""A score of fewer says nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class TableScores:
    """Hold what a word table says of the training texts that it was not fitted to, and of the validation texts."""

    train: NDArray[np.float32]
    """(N, C) logits."""
    validation: NDArray[np.float32]
    """(M, C) logits."""
    favour: NDArray[np.float64] = field(default_factory=lambda: np.ones(()))
    """() share of its log-odds by which a rare class is favoured; runs of versions that kept none took all of it."""


_Scored = tuple[dict[str, float], float, dict[str, float], NDArray[Any], NDArray[Any]]
"""Columns that are told, the score, columns that are only kept, and what was predicted and wanted of each text."""


class ClassificationTask:
    """Learns the texts of `corpus`, whose targets are one id each, the class; see `Task`.

    `MultiLabelTask` learns those with any number of ids. `texts` are those of `validation`, to be shown. The model
    learns what the scores of a word `table` leave, where there is one.
    """

    unit = "texts"

    def __init__(
        self,
        model: EncoderClassifier,
        corpus: Corpus,
        validation: Corpus,
        texts: Sequence[str],
        labels: Sequence[str],
        config: RunConfig,
        table: TableScores | None = None,
    ) -> None:
        self.model = model
        self.corpus = corpus
        self.labels = tuple(labels)
        lengths, seen, training = corpus.lengths("source"), config.classifier.seen_tokens, config.training
        read: Lengths = lengths if seen is None else np.minimum(lengths[:], seen)
        none, size = np.zeros(len(corpus), np.int64), training.tokens_per_batch
        self.plan = BatchPlan(read, none, size, training.seed, corpus.directory)
        self.batches_per_epoch = self.plan.batches_per_epoch
        self._validation, self._texts, self.table = validation, texts, table
        self._tokens_per_batch, self._smoothing = size, training.label_smoothing
        self.limit_validation(1.0)
        self.settings = config.classifier
        favour = 1.0 if table is None else float(table.favour)
        self._weights = class_weights(corpus, len(labels), favour) if self.settings.balance else None

    def loss(self, position: int, progress: float, part: Part = WHOLE) -> BatchLoss:
        """Compute the smoothed cross-entropy of a batch; the encoder learns what the word table leaves."""
        indices = part.of(self.plan.at(position)[1])
        if not len(indices):
            return BatchLoss.of_nothing(self.model.output.weight.device)
        tokens = self._padded(self.corpus, indices)
        logits = self.model(*tokens).float()
        if self.table is not None:
            share = min(1.0, progress / rise) if (rise := self.settings.table_rise) else 1.0
            logits = logits + share * to_device(self.table.train[indices], logits.device)
        objective = self._cross_entropy(logits, indices, self._smoothing, is_weighted=True)
        likelihood = self._cross_entropy(logits.detach(), indices, 0.0)
        return BatchLoss(objective, likelihood, len(indices))

    def _cross_entropy(
        self, logits: Tensor, indices: NDArray[np.int64], smoothing: float, *, is_weighted: bool = False
    ) -> Tensor:
        """Compute the summed loss of training texts, each with the weight of its class if `is_weighted`."""
        wanted = to_device(_classes(self.corpus, indices), logits.device)
        if self._weights is not None:
            self._weights = self._weights.to(logits.device)
        weights = self._weights if is_weighted else None
        return F.cross_entropy(logits, wanted, weights, reduction="sum", label_smoothing=smoothing)

    def baseline(self) -> Baseline:
        """Return the score of always naming the most frequent class."""
        wanted = _classes(self._validation, self._rows).tolist()
        commonest = max(set(wanted), key=wanted.count)
        scores = class_scores(self.labels, wanted, [commonest] * len(wanted))
        return self._saying(commonest, 100 * (scores.macro_f1 if self.settings.balance else scores.accuracy))

    def _saying(self, label: int, score: float) -> Baseline:
        return Baseline(score, 1.0, msg("answering “{labels}” for every text ({score:.2f})", self.labels[label], score))

    @property
    def absent_classes(self) -> tuple[str, ...]:
        """Classes of which no text is validated on, or labels that none of these has."""
        counts = _has_label(self._validation, self._rows, len(self.labels)).sum(axis=0)
        return tuple(label for label, number in zip(self.labels, counts, strict=True) if not number)

    def limit_validation(self, share: float) -> float:
        self._rows = spread(len(self._validation), share, MIN_TEXTS)
        lengths = self._validation.source_lengths[self._rows]
        self._validation_plan = BatchPlan(lengths, np.zeros_like(lengths), self._tokens_per_batch, seed=0)
        return len(self._rows) / len(self._validation)

    def validate(self, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS) -> Validation:
        """Compute loss, accuracy and F1 of held-out texts; see `Task`."""
        logits = self._validation_logits(should_stop, ranks)
        if self.table is None or not np.isfinite(logits).all():
            return self._validated(logits, number)
        known = self.table.validation[self._rows].astype(np.float64)
        weight = encoder_weight(known, logits, self._weighted_losses)
        validated = self._validated(known + weight * logits, number)
        return replace(validated, recorded={**validated.recorded, "encoder_weight": weight})

    def _validated(self, logits: NDArray[np.float64], number: int) -> Validation:
        """Score (N, C) logits of the validation texts."""
        loss = float(self._losses(logits).mean())
        if not math.isfinite(loss):
            return Validation.broken(loss)
        columns, score, recorded, predicted, wanted = self._scored(logits)
        index = number * 7 % len(logits)
        text = self._texts[self._rows[index]][:SHOWN_CHARACTERS]
        shown = (("text", text), ("model", self._names(predicted[index])), ("human", self._names(wanted[index])))
        return Validation(loss, columns, score, shown, score > self.baseline().score, recorded)

    def _scored(self, logits: NDArray[np.float64]) -> _Scored:
        labels, predicted = _classes(self._validation, self._rows), logits.argmax(axis=1)
        scores = class_scores(self.labels, labels.tolist(), predicted.tolist())
        accuracy, macro_f1 = 100 * scores.accuracy, 100 * scores.macro_f1
        columns = {"accuracy": accuracy, "macro_f1": macro_f1, "temperature": fit_temperature(logits, labels)}
        return columns, macro_f1 if self.settings.balance else accuracy, {}, predicted, labels

    def _names(self, row: Any) -> str:
        """Name the label or the labels of a text."""
        return self.labels[row]

    def _weighted_losses(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the losses (N,), each with the weight of its class where classes count the same."""
        losses = self._losses(logits)
        if self._weights is None:
            return losses
        return losses * self._weights.cpu().numpy()[_classes(self._validation, self._rows)]

    def _losses(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative log-likelihood (N,) of each validation text for its logits (N, C)."""
        labels = _classes(self._validation, self._rows)
        right = probabilities(logits)[np.arange(len(labels)), labels]
        # a probability of 0 would be an infinite loss
        return np.asarray(-np.log(np.maximum(right, np.finfo(np.float64).tiny)))

    @torch.inference_mode()
    def _validation_logits(self, should_stop: Stop, ranks: Ranks) -> NDArray[np.float64]:
        """Compute logits (N, C), in the order of the rows that are validated on."""
        batches = list(self._validation_plan.epoch(0))

        def logits_of(number: int) -> list[list[float]]:
            return cast(list[list[float]], self._logits(self._validation, self._rows[batches[number]]).tolist())

        logits = np.zeros((len(self._rows), len(self.labels)))
        for indices, scores in zip(batches, share_out(ranks, len(batches), logits_of, should_stop), strict=True):
            logits[indices] = scores
        return logits

    def _logits(self, corpus: Corpus, indices: NDArray[np.int64]) -> Tensor:
        """Compute logits (B, C), float32."""
        logits: Tensor = self.model(*self._padded(corpus, indices))
        return logits.float()

    def _padded(self, corpus: Corpus, indices: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        return pad_texts([corpus.source(index) for index in indices], self.model.output.weight.device)


def pad_texts(rows: Sequence[Sequence[int] | Ids], device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad ids of texts to one (B, S) tensor; returns it and its mask, True at real tokens."""
    ids, mask = padded(rows)
    return to_device(ids, device), to_device(mask, device)


def class_weights(corpus: Corpus, num_classes: int, favour: float = 1.0) -> Tensor:
    """Return weights (C,), inverse to the power `favour` of a class's frequency, with a mean of 1 over the texts.

    The logits that such a loss asks for are those of the plain one less `favour` times the log-odds of each class.
    """
    counts = np.bincount(_classes(corpus, np.arange(len(corpus))), minlength=num_classes)
    weights = np.maximum(counts, 1.0) ** -favour
    return torch.from_numpy(weights * (len(corpus) / (counts @ weights))).float()


def _classes(corpus: Corpus, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    return corpus.gather(indices, "target")[0]


# The task of a classifier whose texts have any number of labels: a yes or no for each, validated by micro F1.


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
        return self._saying(commonest, float(100 * 2 * counts[commonest] / max(1, len(wanted) + int(counts.sum()))))

    def _losses(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        wanted = _has_label(self._validation, self._rows, len(self.labels))
        return np.asarray((np.logaddexp(0.0, logits) - logits * wanted).sum(axis=1))

    def _scored(self, logits: NDArray[np.float64]) -> _Scored:
        wanted = _has_label(self._validation, self._rows, len(self.labels))
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
        recorded = {f"cut_{label}": cut for label, cut in enumerate(cuts.tolist())}
        return columns, columns["micro_f1"], recorded, predicted, wanted

    def _cuts(self, chances: NDArray[np.float64], wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the cut (C,) of each label, by the validation texts and what the table says of the training texts."""
        if self.table is not None:
            held_out = label_probabilities(self.table.train)
            chances = np.concatenate((chances, held_out))
            wanted = np.concatenate((wanted, _has_label(self.corpus, np.arange(len(self.corpus)), len(self.labels))))
        return label_cuts(chances, wanted, self.settings.precision_at)

    def _names(self, row: Any) -> str:
        return ", ".join(label for label, has in zip(self.labels, row, strict=True) if has) or msg("(no label)")


def _has_label(corpus: Corpus, indices: NDArray[np.int64], num_labels: int) -> NDArray[np.bool_]:
    """Return (B, C): whether each text has each label."""
    labels, lengths = corpus.gather(indices, "target")
    has_label = np.zeros((len(indices), num_labels), bool)
    has_label[np.repeat(np.arange(len(indices)), lengths), labels] = True
    return has_label


def begin_with_shares(model: EncoderClassifier, corpus: Corpus, num_labels: int) -> None:
    """Let the output layer begin with the log-odds of each label in `corpus`, so that a rare one begins as rare."""
    wanted = np.bincount(_classes(corpus, np.arange(len(corpus))), minlength=num_labels)
    shares = (wanted + 0.5) / (len(corpus) + 1.0)
    if model.output.bias is not None:
        with torch.no_grad():
            model.output.bias.copy_(torch.from_numpy(np.log(shares / (1.0 - shares))).float())
