"""The task of a translator: pairs of sentences under teacher forcing, validated by what the model writes itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.data.batching import Batch, BatchPlan, IntArray, collate
from dikkat.data.corpus import Corpus
from dikkat.data.links import Links
from dikkat.kernels.cross_entropy import smoothed_cross_entropy
from dikkat.kernels.processor import to_device
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.layers import training_products
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.task import WHOLE, Baseline, BatchLoss, Part, Stop, Validation, never
from dikkat_runtime.special_tokens import PAD_ID

# The loss of a head that is told which words to attend to (guided alignment, Chen et al. 2016).


@dataclass(frozen=True, slots=True)
class GuidedHead:
    """Guide one head of an attention by the links of a corpus.

    Its output is computed as ever, by the fast kernels; only the weights of this loss are computed next to it.
    """

    attention: MultiHeadAttention
    head: int
    """Number of the head, from 0."""
    links: Links
    weight: float
    """Multiplies the loss."""

    @contextmanager
    def observed(self) -> Iterator[list[Observation]]:
        """Yield a list that is filled with what the attention is given while the body runs."""
        observations: list[Observation] = []
        handle = self.attention.observe(observations.append)
        try:
            yield observations
        finally:
            handle.remove()

    def loss(self, observation: Observation, indices: IntArray) -> Tensor | None:
        """Return the weighted sum over linked rows of -log p, in nats, or None where the batch has no link.

        p is what the head attends to all columns of the row together. `indices` (B,) are the pairs of the batch that
        was observed.
        """
        batch = self.links.of(indices)
        if not len(batch.sentences):
            return None
        device = observation.query.device
        sentences, rows, columns, groups = (
            to_device(numbers, device) for numbers in (batch.sentences, batch.rows, batch.columns, batch.groups)
        )
        # (B, H, T, S) -> (links,)
        weights = self.attention.weights(observation.query, observation.key, observation.mask)
        linked = weights[sentences, self.head, rows, columns]
        # a word may be several tokens: (links,) -> (rows,)
        shares = linked.new_zeros(batch.num_rows).index_add(0, groups, linked)
        return -self.weight * shares.clamp_min(torch.finfo(shares.dtype).tiny).log().sum()


class TranslationValidator(Protocol):
    """Looks at held-out pairs; see `Validator`."""

    def __call__(self, model: EncoderDecoder, number: int, should_stop: Stop = never) -> Validation: ...

    def baseline(self) -> Baseline: ...

    def limit(self, share: float) -> float: ...

    def share_with(self, ranks: Ranks) -> None: ...


class TranslationTask:
    """Learns the pairs of `corpus`, and what a `guided` head should attend to in them; see `Task`."""

    unit = "tokens"

    def __init__(
        self,
        model: EncoderDecoder,
        corpus: Corpus,
        validator: TranslationValidator,
        config: TrainingConfig,
        guided: GuidedHead | None = None,
    ) -> None:
        self.model = model
        self.corpus = corpus
        self.validator = validator
        self.guided = guided
        self.plan = BatchPlan(
            corpus.lengths("source"),
            corpus.lengths("target"),
            config.tokens_per_batch,
            config.seed,
            directory=corpus.directory,
            add_source_eos=model.add_source_eos,
        )
        self._smoothing = config.label_smoothing
        self._bidirectional_share = config.bidirectional_share

    @property
    def batches_per_epoch(self) -> int:
        """Micro-batches in one pass over the pairs."""
        return self.plan.batches_per_epoch

    def loss(self, position: int, progress: float, part: Part = WHOLE) -> BatchLoss:
        """Compute the loss of a batch; at first every second one is read backwards, target to source.

        A batch that is read backwards guides no head: links are between words of its other side.
        """
        indices = part.of(self.plan.at(position)[1])
        if not len(indices):
            return BatchLoss.of_nothing(self.model.output_weight.device)
        batch = collate(self.corpus, indices, add_source_eos=self.model.add_source_eos)
        if progress < self._bidirectional_share and position % 2:
            return batch_loss(self.model, batch.backwards(), self._smoothing)
        if self.guided is None:
            return batch_loss(self.model, batch, self._smoothing)
        with self.guided.observed() as observations:
            loss = batch_loss(self.model, batch, self._smoothing)
        guided = self.guided.loss(observations[0], indices)
        return loss if guided is None else loss._replace(objective=loss.objective + guided)

    def baseline(self) -> Baseline:
        """Return the score of copying the source."""
        return self.validator.baseline()

    def limit_validation(self, share: float) -> float:
        """Validate on about that share of the held-out pairs; returns the share it came to."""
        return self.validator.limit(share)

    def share_validation(self, ranks: Ranks) -> None:
        """Let each of `ranks` translate and score some of the held-out pairs."""
        self.validator.share_with(ranks)

    def validate(self, number: int, should_stop: Stop = never) -> Validation:
        """Compute the loss of held-out pairs, and the scores of their translations."""
        return self.validator(self.model, number, should_stop)


def batch_loss(model: EncoderDecoder, batch: Batch, smoothing: float) -> BatchLoss:
    """Compute the losses of a batch under teacher forcing, counted in target tokens.

    Padding is in neither sum: only the hidden states of real positions reach the vocabulary.
    """
    device = model.output_weight.device
    # counted here, since a device would have to be waited for
    positions = np.flatnonzero(batch.target_output != PAD_ID)
    labels = batch.target_output.reshape(-1)[positions]
    source, target_input, rows, targets = (
        to_device(ids, device) for ids in (batch.source, batch.target_input, positions, labels)
    )
    source_mask = source != PAD_ID
    hidden = model.decode(target_input, model.encode(source, source_mask), source_mask)
    # (B, T, D) -> (N, D)
    real = hidden.reshape(-1, hidden.shape[-1]).index_select(0, rows)
    objective, likelihood = smoothed_cross_entropy(
        real, model.output_weight, targets, smoothing, model.output_bias, products=training_products(model)
    )
    return BatchLoss(objective, likelihood, len(positions))
