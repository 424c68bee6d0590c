"""Greedy decoding: always the most probable next token."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.decoding.hypothesis import Hypothesis
from dikkat.decoding.options import DecodingOptions
from dikkat.decoding.ranking import top
from dikkat.decoding.single import decode_single
from dikkat.decoding.stepper import CachedModel, Stepper


def greedy(
    model: CachedModel[Any], source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], options: DecodingOptions
) -> list[Hypothesis]:
    """One hypothesis a sentence, the most probable token at each step, the lowest id of equals.

    `source_mask` is True at real tokens. The result of a sentence does not depend on the rest of its batch.
    """
    return decode_single(model, source, source_mask, options, _most_probable)


def _most_probable(logits: Float[Tensor, "B V"], _: Stepper) -> Int[Tensor, "B"]:
    return top(logits, 1)[1].squeeze(1)
