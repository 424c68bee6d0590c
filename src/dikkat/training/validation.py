"""Validation: loss of the references, and scores of what the model writes itself."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from dikkat.data.batching import BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.evaluation import copy_source, score_translations
from dikkat.evaluation.scores import PLAIN, Scoring
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.torch_engine.engine import TorchEngine
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import Baseline, Stop, Validation, ValidationStoppedError, never, share_out, spread
from dikkat.training.translation import batch_loss
from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import msg
from dikkat_runtime.tasks.batches import length_batches, search_all
from dikkat_runtime.text.tokenizer import Tokenizer

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
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        sources: list[str],
        targets: list[str],
        scoring: Scoring = PLAIN,
    ) -> None:
        self._corpus = corpus
        self._tokenizer = tokenizer
        self._sources = sources
        self._targets = targets
        self._scoring = scoring
        self.open_engine: Callable[[EncoderDecoder], Engine] = TorchEngine
        """Makes the engine that translates with the weights that a model has now."""
        self._ranks: Ranks = ONE_PROCESS
        self.limit(1.0)

    def share_with(self, ranks: Ranks) -> None:
        """Let each of `ranks`, which are called together from now on, do some of the batches of each validation."""
        self._ranks = ranks
        if self.general is not None:
            self.general[0].share_with(ranks)

    def limit(self, share: float) -> float:
        """Validate on about that share of what is validated on else; returns the share it came to."""
        count = len(self._sources)
        most = min(count, self.MAX_SENTENCES)
        self._chosen = spread(count, share * most / count, least=min(MIN_SENTENCES, most)).tolist()
        rows = spread(count, min(1.0, self.MAX_PAIRS / count), least=1) if share >= 1.0 else np.array(self._chosen)
        self._rows = rows
        self._plan = BatchPlan(self._corpus.source_lengths[rows], self._corpus.target_lengths[rows], 8192, seed=0)
        return len(self._chosen) / most

    def __call__(self, model: EncoderDecoder, number: int, should_stop: Stop = never) -> Validation:
        """Validate `model`, which must be in evaluation mode; `number` chooses the sentence to show.

        Raises `ValidationStoppedError` between two batches.
        """
        with torch.inference_mode():
            loss = self._loss(model, should_stop)
            if not math.isfinite(loss):
                return Validation.broken(loss)
            translations = self._translate(model, should_stop)
        scores = score_translations(translations, [self._targets[index] for index in self._chosen], self._scoring)
        shown = number * 7 % len(self._chosen)
        index = self._chosen[shown]
        sample = (("source", self._sources[index]), ("model", translations[shown]), ("human", self._targets[index]))
        validation = Validation(loss, {"chrf": scores.chrf, "bleu": scores.bleu}, scores.chrf, sample)
        return validation if self.general is None else self._with_general(validation, model, number, should_stop)

    def _with_general(
        self, validation: Validation, model: EncoderDecoder, number: int, should_stop: Stop
    ) -> Validation:
        """Return a validation whose score is less by what general text has lost beyond what it may lose."""
        assert self.general is not None
        general, floor = self.general
        kept = general(model, number, should_stop).score
        score = validation.score + min(0.0, kept - floor)
        return replace(
            validation, scores={**validation.scores, "general": kept}, score=score, recorded={"kept_score": score}
        )

    def baseline(self) -> Baseline:
        """Return the chrF of the sources themselves, on the sentences that are translated."""
        sources, targets = ([texts[index] for index in self._chosen] for texts in (self._sources, self._targets))
        score = score_translations(copy_source(sources), targets, self._scoring).chrf
        return Baseline(score, 1.0, msg("copying the source (chrF {score:.2f})", score))

    def _translate(self, model: EncoderDecoder, should_stop: Stop) -> list[str]:
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

        searched = self._ranks.share_out(len(batches), search)
        if searched is None:
            raise ValidationStoppedError
        # an empty sentence is in no batch
        translations: list[list[int]] = [[] for _ in ids]
        for batch, tokens in zip(batches, searched, strict=True):
            for index, written in zip(batch, tokens, strict=True):
                translations[index] = written
        return self._tokenizer.decode_batch(translations)

    def _loss(self, model: EncoderDecoder, should_stop: Stop) -> float:
        batches = list(self._plan.epoch(0))

        def loss_of(number: int) -> tuple[float, int]:
            batch = collate(self._corpus, self._rows[batches[number]], add_source_eos=model.add_source_eos)
            loss = batch_loss(model, batch, smoothing=0.0)
            return float(loss.likelihood), loss.predictions

        losses = share_out(self._ranks, len(batches), loss_of, should_stop)
        total, tokens = 0.0, 0
        for likelihood, predictions in losses:
            total += likelihood
            tokens += predictions
        return total / tokens if tokens else math.nan


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
