"""Greedy decoding: always the most probable next token."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.decoding.beam import hypotheses_of
from dikkat.decoding.hypothesis import length_penalties
from dikkat.decoding.ranking import NextTokens
from dikkat.decoding.single import follow
from dikkat.decoding.stepper import CachedModel, Stepper
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import DecodingOptions


@torch.inference_mode()
def greedy(
    model: CachedModel[Any], source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], options: DecodingOptions
) -> list[Hypothesis]:
    """One hypothesis a sentence, the most probable token at each step, the lowest id of equals.

    `source_mask` is True at real tokens. The result of a sentence does not depend on the rest of its batch. A model
    that searches by itself is asked for a beam of one, which is the same.
    """
    if source.shape[0] == 0:
        return []
    stepper = Stepper(model, source, source_mask, options, scored=options.scores)
    penalties = length_penalties(stepper.max_cap, options.length_penalty, source.device)
    found = stepper.search(1, penalties)
    if found is not None:
        best = [hypotheses[0] for hypotheses in hypotheses_of(found, penalties, 1)]
        return best if options.scores else [replace(each, score=math.nan, log_probability=math.nan) for each in best]
    return follow(stepper, penalties, _most_probable)


def _most_probable(following: NextTokens, _: Stepper) -> Int[Tensor, "B"]:
    return following.most_probable()
