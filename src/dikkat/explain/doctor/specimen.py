"""What a model is examined on: random sentences of its own vocabulary, and how two results are compared."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.learned_positions import LearnedPositions
from dikkat.nn.masks import length_mask
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import PAD_ID

Patient = EncoderDecoder | EncoderClassifier | LanguageModel
"""The kinds of models that can be examined."""

LENGTHS = (7, 4, 1)
"""Real source tokens of the B sentences: full, padded, and as short as can be. S is the first."""
TARGET_LENGTH = 6
"""T. Short, so that the largest model takes seconds; every claim is about neighbours, not about distance."""
EXTRA = 3
"""Columns of padding that are appended to see whether that changes anything."""


class Steps(NamedTuple):
    """Writing one token at a time, through a cache."""

    step: Callable[[Int[Tensor, "R"]], Float[Tensor, "R V"]]
    """Logits of the token that follows."""
    reorder: Callable[[Int[Tensor, "R"]], None]
    """Row r continues what row `index[r]` had."""


@dataclass(frozen=True, slots=True, eq=False)
class Specimen:
    """A model and B sentences for it. No token is padding: that comes from `mask` alone."""

    model: Patient
    source: Int[Tensor, "B S"]
    """A language model has none and does not look at it, nor at the mask."""
    mask: Bool[Tensor, "B S"]
    """True at the first `LENGTHS[b]` tokens."""
    target: Int[Tensor, "B T"]
    """A classifier has none and does not look at it."""
    seed: int

    @property
    def writes(self) -> bool:
        """Whether the model predicts each next token; a classifier does not, nor does what fills in hidden tokens."""
        return isinstance(self.model, EncoderDecoder) or (
            isinstance(self.model, LanguageModel) and self.model.objective != "masked"
        )

    @property
    def reads_source(self) -> bool:
        """Whether the model has an encoder, and a mask that hides padding from it."""
        return not isinstance(self.model, LanguageModel)

    def begin(self, rows_per_sentence: int = 1) -> Steps:
        """An empty cache, of so many hypotheses a sentence. Raises `TypeError` for a classifier."""
        model = self.model
        if isinstance(model, LanguageModel):
            texts = model.start_cache()
            return Steps(partial(model.step, cache=texts), texts.reorder)
        if isinstance(model, EncoderDecoder):
            memory = model.encode(self.source, self.mask)
            cache = model.start_cache(memory, self.mask, rows_per_sentence=rows_per_sentence)
            return Steps(partial(model.step, cache=cache), cache.reorder)
        raise TypeError(f"a model that writes is wanted, not one of the type {type(model).__name__}")

    def forced(self, targets: Int[Tensor, "R T"], rows_per_sentence: int = 1) -> Float[Tensor, "R T V"]:
        """Logits of teacher forcing, of so many hypotheses a sentence."""
        source, mask = (part.repeat_interleave(rows_per_sentence, dim=0) for part in (self.source, self.mask))
        return self.with_gradient(source, targets, mask)

    @property
    def every_token(self) -> Bool[Tensor, "B S"]:
        """The mask of a batch without padding."""
        return torch.ones_like(self.mask)

    def tokens(self, *shape: int) -> Int[Tensor, "..."]:
        """More random tokens."""
        return _tokens(self.model, *shape)

    def others(self, tokens: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """As many tokens, each another one than in `tokens`."""
        ordinary = _vocabulary(self.model) - 1
        shift = torch.randint(1, ordinary, tokens.shape, device=tokens.device)
        return 1 + (tokens - 1 + shift) % ordinary

    def logits(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T V"]:
        """`with_gradient` without one; in training mode dropout draws the same for inputs of one shape."""
        torch.manual_seed(self.seed)
        with torch.no_grad():
            return self.with_gradient(source, target, mask)

    def with_gradient(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of teacher forcing; of a classifier (B, 1, C), as if it wrote one token, the class."""
        if isinstance(self.model, EncoderClassifier):
            classes: Tensor = self.model(source, mask)
            return classes[:, None]
        given = (target,) if isinstance(self.model, LanguageModel) else (source, target, mask)
        found: Tensor = self.model(*given)
        return found

    def of_type(self, dtype: torch.dtype) -> Specimen:
        """The same sentences and a copy of the model that computes in `dtype`."""
        return Specimen(copy.deepcopy(self.model).to(dtype), self.source, self.mask, self.target, self.seed)


def draw(model: Patient, seed: int) -> Specimen:
    """The specimen of a model and a seed; it sets PyTorch's generator. Raises `UsageError`; see `examine`."""
    _check_positions(model)
    torch.manual_seed(seed)
    lengths = torch.tensor(LENGTHS, device=_embedding(model).device)
    source, target = (_tokens(model, len(LENGTHS), length) for length in (LENGTHS[0], TARGET_LENGTH))
    return Specimen(model, source, length_mask(lengths, LENGTHS[0]), target, seed)


def distance(found: Float[Tensor, "..."], reference: Float[Tensor, "..."]) -> float:
    """The largest difference, in units of the largest logit if that is above 1; NaN if either holds one.

    Relative, because that is how rounding grows: a trained model's logits reach 30, and there float32 moves by 2e-6
    from the shape of a batch alone.
    """
    scale = max(1.0, float(reference.abs().max()))
    return float((found - reference).abs().max()) / scale


def worst(found: Mapping[str, float]) -> tuple[float, str]:
    """The largest violation and its name; one that is not a number counts as the largest."""
    where = max(found, key=lambda name: (math.isnan(found[name]), found[name]))
    return found[where], where


def _check_positions(model: Patient) -> None:
    needed = LENGTHS[0] + EXTRA
    if isinstance(model.positions, LearnedPositions) and model.positions.max_positions < needed:
        raise UsageError(
            f"the doctor tries sentences of {needed} tokens, but the model has learned only max_positions = "
            f"{model.positions.max_positions}; it can only examine one with at least {needed}"
        )


def _tokens(model: Patient, *shape: int) -> Tensor:
    # everything but padding; a vocabulary has at least three more entries, so another token always exists
    return torch.randint(PAD_ID + 1, _vocabulary(model), shape, device=_embedding(model).device)


def _vocabulary(model: Patient) -> int:
    return int(_embedding(model).shape[0])


def _embedding(model: Patient) -> Tensor:
    """(V, D)"""
    return (model.target_embedding if isinstance(model, EncoderDecoder) else model.embedding).weight
