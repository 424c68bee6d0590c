"""Choose the way of decoding by the type of the options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dikkat.torch_engine.beam_search import beam_search
from dikkat.torch_engine.greedy import greedy
from dikkat.torch_engine.sampling import sample
from dikkat.torch_engine.stepper import CachedModel
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions

DecodeBatch = Callable[[Tensor, Tensor, Sequence[int]], list[list[Hypothesis]]]
"""Maps source (B, S), source mask (B, S) and the numbers of the sentences to the hypotheses of each, best first."""


def batch_decoder(model: CachedModel[Any], options: DecodingOptions) -> DecodeBatch:
    """Return the function that decodes a batch: beam search for `BeamOptions`, sampling for `SamplingOptions`.

    Plain options, or a beam of one, are greedy.
    """

    def decode(source: Tensor, source_mask: Tensor, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        if isinstance(options, BeamOptions) and options.beam_size > 1:
            return beam_search(model, source, source_mask, options)
        if isinstance(options, SamplingOptions):
            return [[hypothesis] for hypothesis in sample(model, source, source_mask, options, numbers)]
        return [[hypothesis] for hypothesis in greedy(model, source, source_mask, options)]

    return decode
