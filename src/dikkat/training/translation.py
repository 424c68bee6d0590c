"""The task of a translator: pairs of sentences under teacher forcing, validated by what the model writes itself."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.data.batching import Batch, BatchPlan, IntArray, collate
from dikkat.data.corpus import Corpus
from dikkat.data.links import Links
from dikkat.evaluation import copy_source, score_translations
from dikkat.evaluation.scores import PLAIN, Scoring
from dikkat.kernels.cross_entropy import smoothed_cross_entropy
from dikkat.kernels.processor import to_device
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.layers import training_products
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.torch_engine.engine import TorchEngine
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import (
    WHOLE,
    Baseline,
    BatchLoss,
    Part,
    Stop,
    Validation,
    ValidationStoppedError,
    never,
    share_out,
    spread,
)
from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import msg
from dikkat_runtime.special_tokens import PAD_ID
from dikkat_runtime.tasks.batches import length_batches, search_all
from dikkat_runtime.text.tokenizer import Tokenizer

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

    def loss(self, observation: Observation, indices: IntArray) -> Tensor | None:
        """Return the weighted sum over linked rows of -log p, in nats, or None where the batch has no link.

        p is what the head attends to all columns of the row together. `indices` (B,) are the pairs of the batch that
        was observed.
        """
        batch = self.links.of(indices)
        if not len(batch.sentences):
            return None
        query, key, mask = observation.query, observation.key, observation.mask
        # only sentences with a link need their weights
        linked_sentences, numbers = np.unique(batch.sentences, return_inverse=True)
        arrays = linked_sentences, numbers, batch.rows, batch.columns, batch.groups
        chosen, sentences, rows, columns, groups = (to_device(array, query.device) for array in arrays)
        mask = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])[chosen]
        # (linked sentences, H, T, S) -> (links,)
        weights = self.attention.weights(query.index_select(0, chosen), key.index_select(0, chosen), mask)
        linked = weights[sentences, self.head, rows, columns]
        # a word may be several tokens: (links,) -> (rows,)
        shares = linked.new_zeros(batch.num_rows).index_add(0, groups, linked)
        return -self.weight * shares.clamp_min(torch.finfo(shares.dtype).tiny).log().sum()


class TranslationTask:
    """Learns the pairs of `corpus`, and what a `guided` head should attend to in them; see `Task`."""

    unit = "tokens"

    def __init__(
        self,
        model: EncoderDecoder,
        corpus: Corpus,
        validator: "Validator",
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
        self.batches_per_epoch = self.plan.batches_per_epoch
        self._smoothing = config.label_smoothing
        self._bidirectional_share = config.bidirectional_share

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
        observations: list[Observation] = []
        with self.guided.attention.observe(observations.append):
            loss = batch_loss(self.model, batch, self._smoothing)
        guided = self.guided.loss(observations[0], indices)
        return loss if guided is None else loss._replace(objective=loss.objective + guided)

    def baseline(self) -> Baseline:
        """Return the score of copying the source."""
        return self.validator.baseline()

    def limit_validation(self, share: float) -> float:
        return self.validator.limit(share)

    def validate(self, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS) -> Validation:
        """Compute the loss of held-out pairs, and the scores of their translations."""
        return self.validator(self.model, number, should_stop, ranks)


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


# Validation: loss of the references, and scores of what the model writes itself.

DECODING_BATCH = 128
"""Sentences decoded between two looks at whether to stop."""
SPARE_TOKENS = 3
"""So much longer than the longest reference for its source may a translation be."""
MIN_SENTENCES = 32
"""A score of fewer says nothing."""


class Validator:
    """Translates the same sentences greedily each time, evenly spread over the held-out part."""

    general: "tuple[Validator, float] | None" = None
    """What validates general text that an adaptation should keep, and the chrF under which it counts as lost."""
    MAX_SENTENCES = 1_000
    """So many are translated at most."""
    MAX_PAIRS = 10_000
    """The loss is that of so many pairs at most."""

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, sources: list[str], targets: list[str], scoring: Scoring = PLAIN
    ) -> None:
        self._corpus = corpus
        self._tokenizer = tokenizer
        self._sources = sources
        self._targets = targets
        self._scoring = scoring
        self.open_engine: Callable[[EncoderDecoder], Engine] = TorchEngine
        """Makes the engine that translates with the weights that a model has now."""
        self.limit(1.0)

    def limit(self, share: float) -> float:
        """Validate on about that share of what is validated on else; returns the share it came to."""
        count = len(self._sources)
        most = min(count, self.MAX_SENTENCES)
        self._chosen = spread(count, share * most / count, least=min(MIN_SENTENCES, most)).tolist()
        rows = spread(count, min(1.0, self.MAX_PAIRS / count), least=1) if share >= 1.0 else np.array(self._chosen)
        self._rows = rows
        self._plan = BatchPlan(self._corpus.source_lengths[rows], self._corpus.target_lengths[rows], 8192, seed=0)
        return len(self._chosen) / most

    def __call__(
        self, model: EncoderDecoder, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS
    ) -> Validation:
        """Validate `model`, which must be in evaluation mode; `number` chooses the sentence to show.

        Each of `ranks` does some of the batches. Raises `ValidationStoppedError` between two of them.
        """
        with torch.inference_mode():
            loss = self._loss(model, should_stop, ranks)
            if not math.isfinite(loss):
                return Validation.broken(loss)
            translations = self._translate(model, should_stop, ranks)
        scores = score_translations(translations, [self._targets[index] for index in self._chosen], self._scoring)
        shown = number * 7 % len(self._chosen)
        index = self._chosen[shown]
        sample = (("source", self._sources[index]), ("model", translations[shown]), ("human", self._targets[index]))
        validation = Validation(loss, {"chrf": scores.chrf, "bleu": scores.bleu}, scores.chrf, sample)
        if self.general is None:
            return validation
        general, floor = self.general
        kept = general(model, number, should_stop, ranks).score
        # the score is less by what general text has lost beyond what it may lose
        score = validation.score + min(0.0, kept - floor)
        both = {**validation.scores, "general": kept}
        return replace(validation, scores=both, score=score, recorded={"kept_score": score})

    def baseline(self) -> Baseline:
        """Return the chrF of the sources themselves, on the sentences that are translated."""
        sources, targets = ([texts[index] for index in self._chosen] for texts in (self._sources, self._targets))
        score = score_translations(copy_source(sources), targets, self._scoring).chrf
        return Baseline(score, 1.0, msg("copying the source (chrF {score:.2f})", score))

    def _translate(self, model: EncoderDecoder, should_stop: Stop, ranks: Ranks) -> list[str]:
        def stop_if_asked() -> None:
            if should_stop():
                raise ValidationStoppedError

        ids = [self._corpus.source(index).tolist() for index in self._chosen]
        engine = self.open_engine(model)
        options = decoding_options(self._corpus, add_source_eos=model.add_source_eos)
        batches = list(length_batches([len(sentence) for sentence in ids], DECODING_BATCH))

        def search(numbers: Sequence[int]) -> list[list[list[int]]] | None:
            own = [batches[number] for number in numbers]
            try:
                hypotheses = search_all(engine, ids, options, batches=own, before_batch=stop_if_asked)
            except ValidationStoppedError:
                return None
            return [[list(hypotheses[index][0].tokens) for index in batch] for batch in own]

        searched = ranks.share_out(len(batches), search)
        if searched is None:
            raise ValidationStoppedError
        # an empty sentence is in no batch
        translations: list[list[int]] = [[] for _ in ids]
        for batch, tokens in zip(batches, searched, strict=True):
            for index, written in zip(batch, tokens, strict=True):
                translations[index] = written
        return self._tokenizer.decode_batch(translations)

    def _loss(self, model: EncoderDecoder, should_stop: Stop, ranks: Ranks) -> float:
        batches = list(self._plan.epoch(0))

        def loss_of(number: int) -> tuple[float, int]:
            batch = collate(self._corpus, self._rows[batches[number]], add_source_eos=model.add_source_eos)
            loss = batch_loss(model, batch, smoothing=0.0)
            return float(loss.likelihood), loss.predictions

        total, tokens = map(sum, zip(*share_out(ranks, len(batches), loss_of, should_stop), strict=True))
        return total / tokens


def decoding_options(corpus: Corpus, *, add_source_eos: bool = True) -> DecodingOptions:
    """Return options of greedy decoding that stops a little after every reference of `corpus` would have ended.

    A model that has learned nothing writes up to the limit of length, which is most of the time of its validation.
    """
    # an end mark counts on both sides
    sources, targets = np.maximum(1, corpus.source_lengths + add_source_eos), corpus.target_lengths + 1
    usual = DecodingOptions()
    factor = min(usual.max_length_factor, max(1.0, float(np.median(targets / sources))))
    beyond = int(np.max(targets - np.floor(factor * sources), initial=0))
    offset = min(usual.max_length_offset, beyond + SPARE_TOKENS)
    return DecodingOptions(scores=False, max_length_factor=factor, max_length_offset=offset)
