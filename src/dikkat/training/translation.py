"""The task of a translator: pairs of sentences under teacher forcing, validated by what the model writes itself."""

from __future__ import annotations

from dikkat.config import TrainingConfig
from dikkat.data.batching import BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.training.task import Baseline, BatchLoss, Stop, Validation, never
from dikkat.training.validation import Validator, batch_loss


class TranslationTask:
    """Learns the pairs of `corpus`; see `Task`."""

    unit = "tokens"

    def __init__(self, model: EncoderDecoder, corpus: Corpus, validator: Validator, config: TrainingConfig) -> None:
        self.model = model
        self.corpus = corpus
        self.validator = validator
        self.plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, config.tokens_per_batch, config.seed)
        self._smoothing = config.label_smoothing
        self._bidirectional_share = config.bidirectional_share

    @property
    def batches_per_epoch(self) -> int:
        return self.plan.batches_per_epoch

    def loss(self, position: int, progress: float) -> BatchLoss:
        _, indices = self.plan.at(position)
        batch = collate(self.corpus, indices)
        if progress < self._bidirectional_share and position % 2:
            batch = batch.backwards()
        return batch_loss(self.model, batch, self._smoothing)

    def baseline(self) -> Baseline:
        return self.validator.baseline()

    def limit_validation(self, share: float) -> float:
        return self.validator.limit(share)

    def validate(self, number: int, should_stop: Stop = never) -> Validation:
        return self.validator(self.model, number, should_stop)
