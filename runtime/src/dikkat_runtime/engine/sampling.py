"""Draw the next token from the model's distribution, sharpened and truncated as the options say."""

from __future__ import annotations

import numpy as np

from dikkat_runtime.engine.activations import softmax
from dikkat_runtime.engine.options import SamplingOptions
from dikkat_runtime.native.arrays import Array


def draw(logits: Array, options: SamplingOptions, uniform: np.float32) -> int:
    """Return the token that `uniform`, a number of [0, 1), selects from the cumulative probabilities of `logits` (V,).

    Temperature first, then top-k, then top-p on what top-k left, then min-p; temperature 0 takes the most probable.
    """
    if options.temperature == 0:
        return int(logits.argmax())
    # by falling logit, the lowest id first among equals
    order = np.arange(len(logits))
    if options.top_k or options.top_p < 1:
        order = np.argsort(-logits, kind="stable")[: options.top_k or len(logits)]
    # the largest becomes 0 before the division, so that no temperature overflows
    shares = softmax((logits[order] - logits.max()) / np.float32(max(options.temperature, 1e-30)))
    if options.top_p < 1:
        # a token stays while those before it hold less than the share wanted
        shares = np.where(shares.cumsum() - shares >= options.top_p, 0, shares)
    shares = np.where(shares < options.min_p * shares.max(), 0, shares)
    ends = shares.cumsum()
    # the product may round up to the total, behind which lies nothing
    at = min(uniform * ends[-1], np.nextafter(ends[-1], np.float32(0)))
    return int(order[np.searchsorted(ends, at, side="right")])
