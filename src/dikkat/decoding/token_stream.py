"""Decode one sentence greedily and yield each token as it is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.decoding.stepper import EOS, CachedModel, Stepper
from dikkat_runtime.engine.options import DecodingOptions


def token_stream(
    model: CachedModel[Any], source: Int[Tensor, "1 S"], source_mask: Bool[Tensor, "1 S"], options: DecodingOptions
) -> Iterator[int]:
    """Yield the tokens of `greedy`, each as soon as it is chosen; ends at the end token (not yielded) or the cap."""
    with torch.inference_mode():
        stepper = Stepper(model, source, source_mask, options, scored=False)
    written = torch.empty((1, 0), dtype=torch.int64, device=source.device)
    while True:
        with torch.inference_mode():
            chosen = stepper.next_tokens(written).most_probable().unsqueeze(1)
            written = torch.cat([written, chosen], dim=1)
        token = int(chosen)
        if token == EOS:
            return
        yield token
        if stepper.length >= stepper.max_cap:
            return
        with torch.inference_mode():
            stepper.advance(chosen, torch.zeros_like(chosen), None)
