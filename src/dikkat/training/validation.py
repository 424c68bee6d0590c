"""Validation: loss of the references, and scores of what the model writes itself."""

from __future__ import annotations

import math

import numpy as np
import torch

from dikkat.data.batching import Batch, BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.decoding.hypothesis import EMPTY
from dikkat.decoding.options import DecodingOptions
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import decode_stream
from dikkat.evaluation import score_translations
from dikkat.evaluation.scoring import PLAIN, Scoring
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.native.device import moved
from dikkat.text.tokenizer import PAD_ID, Tokenizer
from dikkat.training.objective import smoothed_cross_entropy
from dikkat.training.task import BatchLoss, Validation


class Validator:
    """Translates the same sentences greedily each time; at most `MOST_SENTENCES`, evenly spread over the part."""

    MOST_SENTENCES = 1_000

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
        self._chosen = np.unique(np.linspace(0, len(sources) - 1, self.MOST_SENTENCES).astype(int)).tolist()
        self._sources = sources
        self._targets = targets
        self._scoring = scoring
        self._plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, 8192, seed=0)

    def __call__(self, model: EncoderDecoder, number: int) -> Validation:
        """Validate `model`, which must be in evaluation mode; `number` chooses the sentence to show."""
        with torch.inference_mode():
            loss = self._loss(model)
            ids = [self._corpus.source(index).tolist() for index in self._chosen]
            decode = batch_decoder(model, DecodingOptions(scores=False))
            found = decode_stream(ids, decode, [EMPTY], batch_size=256, device=model.output_weight.device)
            decoded = [best[0].tokens for best in found]
        translations = self._tokenizer.decode_batch(decoded)
        scores = score_translations(translations, [self._targets[index] for index in self._chosen], self._scoring)
        shown = number * 7 % len(self._chosen)
        place = self._chosen[shown]
        sample = (("source", self._sources[place]), ("model", translations[shown]), ("human", self._targets[place]))
        return Validation(loss, {"chrf": scores.chrf, "bleu": scores.bleu}, scores.chrf, sample)

    def _loss(self, model: EncoderDecoder) -> float:
        total, tokens = 0.0, 0
        for indices in self._plan.epoch(0):
            found = batch_loss(model, collate(self._corpus, indices), smoothing=0.0)
            total += float(found.likelihood)
            tokens += found.predictions
        return total / tokens if tokens else math.nan


def batch_loss(model: EncoderDecoder, batch: Batch, smoothing: float) -> BatchLoss:
    """Losses of a batch under teacher forcing, counted in target tokens.

    Padding is in neither sum: only the hidden states of real positions reach the vocabulary.
    """
    device = model.output_weight.device
    # counted here, since a device would have to be waited for
    places = np.flatnonzero(batch.target_output != PAD_ID)
    predicted = batch.target_output.reshape(-1)[places]
    source, target_input, real, wanted = (
        moved(ids, device) for ids in (batch.source, batch.target_input, places, predicted)
    )
    source_mask = source != PAD_ID
    hidden = model.decode(target_input, model.encode(source, source_mask), source_mask)
    # (B, T, D) -> (N, D)
    rows = hidden.reshape(-1, hidden.shape[-1]).index_select(0, real)
    objective, likelihood = smoothed_cross_entropy(rows, model.output_weight, wanted, smoothing)
    return BatchLoss(objective, likelihood, len(places))
