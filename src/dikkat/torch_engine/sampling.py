"""Sample the next token from the model's distribution, sharpened and truncated by the options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.ranking import NextTokens, top
from dikkat.torch_engine.single import decode_single
from dikkat.torch_engine.stepper import CachedModel, Stepper, length_caps
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import SamplingOptions


def sample(
    model: CachedModel[Any],
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    options: SamplingOptions,
    numbers: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Return one sampled hypothesis a sentence, decided by the seed and its own number, not by its batch.

    `numbers` are the sentences' numbers, by default their indices in the batch. Scores are the model's own
    log-probabilities, whatever was truncated or sharpened for sampling.
    """
    caps = length_caps(source_mask, options)
    uniforms = _uniforms(options.seed, range(len(caps)) if numbers is None else numbers, caps).to(source.device)

    def draw_next(following: NextTokens, stepper: Stepper) -> Tensor:
        probabilities, ids = candidates(following.logits, options)
        indices = draw(probabilities, uniforms[stepper.sentences, stepper.length - 1])
        return ids.gather(1, indices.unsqueeze(1)).squeeze(1)

    return decode_single(model, source, source_mask, options, draw_next)


def candidates(
    logits: Float[Tensor, "B V"], options: SamplingOptions
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return probabilities to sample with, and their ids; what top-p and min-p cut has probability 0.

    They sum to 1 before top-p and are not normalised again after it. Temperature 0 leaves the one best.
    """
    width = logits.shape[-1]
    kept = 1 if options.temperature == 0 else min(options.top_k or width, width)
    if kept < width or options.top_p < 1:
        logits, ids = top(logits, kept)
    else:
        ids = torch.arange(width, device=logits.device).expand_as(logits)
    # The largest becomes 0 before the division, so that no temperature overflows into inf - inf.
    distances = logits - logits.amax(dim=-1, keepdim=True)
    probabilities = (distances / max(options.temperature, 1e-30)).softmax(dim=-1)
    if options.top_p < 1:
        # sorted here: a token stays while those before it hold less than the share wanted
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= options.top_p, 0.0)
    if options.min_p > 0:
        least = options.min_p * probabilities.amax(dim=-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    return probabilities, ids


def draw(probabilities: Float[Tensor, "B C"], uniforms: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Return the index that each uniform number of [0, 1) falls on when the probabilities lie end to end.

    Their sum may be any positive number.
    """
    ends = probabilities.cumsum(dim=-1)
    total = ends[:, -1]
    # uniform * total may round up to total, behind which lies nothing
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(ends, target.unsqueeze(1), right=True).squeeze(1)


def _uniforms(seed: int, numbers: Sequence[int], caps: Sequence[int]) -> Float[Tensor, "B L"]:
    """A random stream for each sentence: one number in [0, 1) for every token it may emit."""
    streams = np.zeros((len(caps), max(caps, default=0)), dtype=np.float32)
    for stream, number, cap in zip(streams, numbers, caps, strict=True):
        stream[:cap] = np.random.default_rng((seed, number)).random(cap, dtype=np.float32)
    return torch.from_numpy(streams)
