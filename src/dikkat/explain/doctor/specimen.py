"""The input of the checks: random sentences of the model's vocabulary, and a distance of two results."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.blocks import SSRU
from dikkat.nn.masks import length_mask
from dikkat.nn.positions import LearnedPositions
from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import PAD_ID

ExaminableModel = EncoderDecoder | EncoderClassifier | LanguageModel
"""Kinds of models that can be examined."""

LENGTHS = (7, 4, 1)
"""Real source tokens of the B sentences: full, padded, and of length one. S is the first."""
TARGET_LENGTH = 6
"""T. Short, so that the largest model takes seconds; every claim is about neighbours, not about distance."""
EXTRA = 3
"""Columns of padding that are appended to see whether they change anything."""


Numbers = TypeVar("Numbers", Tensor, Array)


class Steps(NamedTuple):
    """Generate one token at a time with a cache."""

    step: Callable[[Int[Tensor, "R"]], Float[Tensor, "R V"]]
    """Returns the logits of the token that follows."""
    reorder: Callable[[Int[Tensor, "R"]], None]
    """Lets row r continue row `index[r]`."""


@dataclass(frozen=True, slots=True, eq=False)
class Specimen:
    """Hold a model and B sentences for it; no token is padding, only `mask` says what is."""

    model: ExaminableModel
    source: Int[Tensor, "B S"]
    """Source tokens; a language model has none and ignores them and the mask."""
    mask: Bool[Tensor, "B S"]
    """True at the first `LENGTHS[b]` tokens."""
    target: Int[Tensor, "B T"]
    """Target tokens; a classifier has none and ignores them."""
    seed: int

    @property
    def writes(self) -> bool:
        """Return whether the model predicts each next token; a classifier and a masked model do not."""
        return isinstance(self.model, EncoderDecoder) or (
            isinstance(self.model, LanguageModel) and self.model.objective != "masked"
        )

    @property
    def reads_source(self) -> bool:
        """Return whether the model has an encoder, and a mask that hides padding from it."""
        return not isinstance(self.model, LanguageModel)

    @property
    def only_attends(self) -> bool:
        """Return whether nothing but attention carries information between positions; a recurrent decoder does too."""
        return not any(isinstance(module, SSRU) for module in self.model.modules())

    def begin(self, rows_per_sentence: int = 1) -> Steps:
        """Return an empty cache for `rows_per_sentence` hypotheses a sentence. Raises `TypeError` for a classifier."""
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
        """Return the logits of teacher forcing for `rows_per_sentence` hypotheses a sentence."""
        source, mask = (part.repeat_interleave(rows_per_sentence, dim=0) for part in (self.source, self.mask))
        return self.with_gradient(source, targets, mask)

    @property
    def every_token(self) -> Bool[Tensor, "B S"]:
        """Return the mask of a batch without padding."""
        return torch.ones_like(self.mask)

    def tokens(self, *shape: int) -> Int[Tensor, "..."]:
        return _tokens(self.model, *shape)

    def others(self, tokens: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return a tensor of the same shape in which every token differs from `tokens`."""
        ordinary = _vocabulary(self.model) - 1
        shift = torch.randint(1, ordinary, tokens.shape, device=tokens.device)
        return 1 + (tokens - 1 + shift) % ordinary

    def logits(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T V"]:
        """Return `with_gradient` without a gradient; in training mode dropout is the same for inputs of one shape."""
        torch.manual_seed(self.seed)
        with torch.no_grad():
            return self.with_gradient(source, target, mask)

    def with_gradient(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of teacher forcing; of a classifier (B, 1, C), as if the class were the one token."""
        if isinstance(self.model, EncoderClassifier):
            classes: Tensor = self.model(source, mask)
            return classes[:, None]
        inputs = (target,) if isinstance(self.model, LanguageModel) else (source, target, mask)
        logits: Tensor = self.model(*inputs)
        return logits

    def of_type(self, dtype: torch.dtype) -> "Specimen":
        """Return the same sentences and a copy of the model that computes in `dtype`."""
        return Specimen(copy.deepcopy(self.model).to(dtype), self.source, self.mask, self.target, self.seed)


def draw(model: ExaminableModel, seed: int) -> Specimen:
    """Draw the specimen of a model and a seed, and seed PyTorch's generator. Raises `UsageError`; see `examine`."""
    _check_positions(model)
    torch.manual_seed(seed)
    lengths = torch.tensor(LENGTHS, device=_embedding(model).device)
    source, target = (_tokens(model, len(LENGTHS), length) for length in (LENGTHS[0], TARGET_LENGTH))
    return Specimen(model, source, length_mask(lengths, LENGTHS[0]), target, seed)


def distance(result: Numbers, reference: Numbers) -> float:
    """Return the largest difference, in units of the largest logit if that is above 1; NaN if either holds one.

    Relative, because that is how rounding grows: a trained model's logits reach 30, and there float32 moves by 2e-6
    from the shape of a batch alone.
    """
    return float(abs(result - reference).max()) / max(1.0, float(abs(reference).max()))


def worst(violations: Mapping[str, float]) -> tuple[float, str]:
    """Return the largest violation and its name; NaN counts as the largest."""
    where = max(violations, key=lambda name: (math.isnan(violations[name]), violations[name]))
    return violations[where], where


def _check_positions(model: ExaminableModel) -> None:
    needed = LENGTHS[0] + EXTRA
    if isinstance(model.positions, LearnedPositions) and model.positions.max_positions < needed:
        raise UsageError(
            "the doctor tries sentences of {needed} tokens, but the model has learned only max_positions = "
            "{max_positions}; it can only examine one with at least {needed}"
        ).fill(needed, model.positions.max_positions)


def _tokens(model: ExaminableModel, *shape: int) -> Tensor:
    # everything but padding; a vocabulary has at least three more entries, so another token always exists
    return torch.randint(PAD_ID + 1, _vocabulary(model), shape, device=_embedding(model).device)


def _vocabulary(model: ExaminableModel) -> int:
    return int(_embedding(model).shape[0])


def _embedding(model: ExaminableModel) -> Tensor:
    """(V, D)"""
    return (model.target_embedding if isinstance(model, EncoderDecoder) else model.embedding).weight
