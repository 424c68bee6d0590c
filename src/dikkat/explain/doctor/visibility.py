"""Who can see whom: positions meet only in attention, and there nobody looks ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dikkat.explain.doctor.specimen import Specimen, distance, worst
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.multi_head_attention import MultiHeadAttention


def met_outside_attention(specimen: Specimen) -> tuple[float, str]:
    """With every attention silenced, what another token at one position changes at all the others."""
    model, full, found = specimen.model, specimen.every_token, {}
    with _silent_attention(model), torch.no_grad():
        if isinstance(model, LanguageModel):
            return worst({"decoder": _moved_elsewhere(specimen, specimen.target, model.hidden)})
        found["encoder"] = _moved_elsewhere(specimen, specimen.source, lambda tokens: model.encode(tokens, full))
        if isinstance(model, EncoderDecoder):
            decode = partial(model.decode, memory=model.encode(specimen.source, full), source_mask=full)
            found["decoder"] = _moved_elsewhere(specimen, specimen.target, decode)
    return worst(found)


def _moved_elsewhere(specimen: Specimen, tokens: Tensor, hidden: Callable[[Tensor], Tensor]) -> float:
    """What another token in the middle changes in the hidden states (B, T, D) of all the others."""
    place = specimen.target.shape[1] // 2
    elsewhere = torch.arange(tokens.shape[1], device=tokens.device) != place
    changed = _replaced(specimen, tokens, place, place + 1)
    return distance(hidden(changed)[:, elsewhere], hidden(tokens)[:, elsewhere])


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


def _replaced(specimen: Specimen, tokens: Tensor, start: int, end: int | None) -> Tensor:
    result = tokens.clone()
    result[:, start:end] = specimen.others(tokens[:, start:end])
    return result
