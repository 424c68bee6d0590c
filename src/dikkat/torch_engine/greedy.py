"""Greedy decoding: always take the most probable next token."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.torch_engine.ranking import NextTokens
from dikkat.torch_engine.single import decode_single
from dikkat.torch_engine.stepper import CachedModel, Stepper
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import DecodingOptions


def greedy(
    model: CachedModel[Any], source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], options: DecodingOptions
) -> list[Hypothesis]:
    """Return one hypothesis a sentence, of the most probable token at each step, the lowest id of equals.

    `source_mask` is True at real tokens. The result of a sentence does not depend on the rest of its batch.
    """
    return decode_single(model, source, source_mask, options, _most_probable)


def _most_probable(following: NextTokens, _: Stepper) -> Int[Tensor, "B"]:
    return following.most_probable()
