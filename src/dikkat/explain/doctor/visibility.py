"""Who can see whom: positions meet only in attention, and there nobody looks ahead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dikkat.explain.doctor.specimen import Specimen, distance, worst
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.attention import MultiHeadAttention


def met_outside_attention(specimen: Specimen) -> tuple[float, str]:
    """With every attention silenced, what another token at one position changes at all the others."""
    place = specimen.target.shape[1] // 2
    elsewhere = torch.arange(specimen.source.shape[1], device=specimen.source.device) != place
    full = specimen.every_token
    with _silent_attention(specimen.model), torch.no_grad():
        sources = [_replaced(specimen, specimen.source, place, place + 1, changed) for changed in (False, True)]
        memory, other_memory = (specimen.model.encode(source, full) for source in sources)
        found = {"encoder": distance(other_memory[:, elsewhere], memory[:, elsewhere])}
        if isinstance(specimen.model, EncoderDecoder):
            targets = [_replaced(specimen, specimen.target, place, place + 1, changed) for changed in (False, True)]
            hidden, other_hidden = (specimen.model.decode(target, memory, full) for target in targets)
            before = elsewhere[: hidden.shape[1]]
            found["decoder"] = distance(other_hidden[:, before], hidden[:, before])
    return worst(found)


def seen_future(specimen: Specimen) -> tuple[float, str]:
    """What other tokens from position t on change in the logits before t, for every t, in the model's mode."""
    logits = specimen.logits(specimen.source, specimen.target, specimen.mask)
    found = {}
    for place in range(1, specimen.target.shape[1]):
        changed = _replaced(specimen, specimen.target, place, None)
        other = specimen.logits(specimen.source, changed, specimen.mask)
        found[f"tokens from position {place} on"] = distance(other[:, :place], logits[:, :place])
    return worst(found)


def seen_future_in_training(specimen: Specimen) -> tuple[float, str]:
    """`seen_future` in training mode, with dropout as configured and drawn alike each time."""
    specimen.model.train()
    return seen_future(specimen)


@contextmanager
def _silent_attention(model: nn.Module) -> Iterator[None]:
    def silence(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    handles = [module.register_forward_hook(silence) for module in found]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _replaced(specimen: Specimen, tokens: Tensor, start: int, end: int | None, changed: bool = True) -> Tensor:
    result = tokens.clone()
    if changed:
        result[:, start:end] = specimen.others(tokens[:, start:end])
    return result
