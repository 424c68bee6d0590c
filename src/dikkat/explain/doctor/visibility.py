"""Check what no result may depend on: later positions, padding, other sentences, what attention does not join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.explain.doctor.specimen import EXTRA, Specimen, distance, worst
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.messages import msg
from dikkat_runtime.special_tokens import PAD_ID


def met_outside_attention(specimen: Specimen) -> tuple[float, str]:
    """Measure what another token at one position changes at the others while all attention is off."""
    model, full, violations = specimen.model, specimen.every_token, {}
    with _silent_attention(model), torch.no_grad():
        if isinstance(model, LanguageModel):
            return worst({"decoder": _changed_elsewhere(specimen, specimen.target, model.hidden)})
        violations["encoder"] = _changed_elsewhere(specimen, specimen.source, lambda tokens: model.encode(tokens, full))
        if isinstance(model, EncoderDecoder):
            decode = partial(model.decode, memory=model.encode(specimen.source, full), source_mask=full)
            violations["decoder"] = _changed_elsewhere(specimen, specimen.target, decode)
    return worst(violations)


def _changed_elsewhere(specimen: Specimen, tokens: Tensor, hidden: Callable[[Tensor], Tensor]) -> float:
    """What another token in the middle changes in the hidden states (B, T, D) of all the others."""
    position = specimen.target.shape[1] // 2
    elsewhere = torch.arange(tokens.shape[1], device=tokens.device) != position
    changed = _replaced(specimen, tokens, position, position + 1)
    return distance(hidden(changed)[:, elsewhere], hidden(tokens)[:, elsewhere])


def seen_future(specimen: Specimen) -> tuple[float, str]:
    """Measure what other tokens from position t on change in the logits before t, for every t."""
    logits = specimen.logits(specimen.source, specimen.target, specimen.mask)
    violations = {}
    for position in range(1, specimen.target.shape[1]):
        changed = _replaced(specimen, specimen.target, position, None)
        other = specimen.logits(specimen.source, changed, specimen.mask)
        violations[f"tokens from position {position} on"] = distance(other[:, :position], logits[:, :position])
    return worst(violations)


def seen_future_in_training(specimen: Specimen) -> tuple[float, str]:
    """Measure `seen_future` in training mode, with dropout as configured and the same each time."""
    specimen.model.train()
    return seen_future(specimen)


@contextmanager
def _silent_attention(model: nn.Module) -> Iterator[None]:
    def silence(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    handles = [module.register_forward_hook(silence) for module in attentions]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _replaced(specimen: Specimen, tokens: Tensor, start: int, end: int | None) -> Tensor:
    result = tokens.clone()
    result[:, start:end] = specimen.others(tokens[:, start:end])
    return result


def changed_by_padding(specimen: Specimen) -> tuple[float, str]:
    """Measure what more padding changes, and what other tokens that the mask hides change, in float64.

    More padding is another shape, and in float32 that alone regroups sums; float64 leaves only what is really seen.
    """
    exact = specimen.of_type(torch.float64)
    full = exact.every_token
    alone = exact.logits(exact.source, exact.target, full)
    longer, longer_mask = F.pad(exact.source, (0, EXTRA), value=PAD_ID), F.pad(full, (0, EXTRA), value=False)
    appended = distance(exact.logits(longer, exact.target, longer_mask), alone)
    ragged = exact.logits(exact.source, exact.target, exact.mask)
    hidden = torch.where(exact.mask, exact.source, exact.others(exact.source))
    behind = distance(exact.logits(hidden, exact.target, exact.mask), ragged)
    return worst(
        {
            msg("{count} more columns of padding").fill(EXTRA): appended,
            msg("other tokens that the mask hides"): behind,
        }
    )


def changed_by_batch(specimen: Specimen) -> tuple[float, str]:
    """Measure what reading each sentence alone changes; all have one length, so that no padding is involved."""
    together = specimen.logits(specimen.source, specimen.target, specimen.every_token)
    rows = [
        specimen.logits(specimen.source[row, None], specimen.target[row, None], specimen.every_token[row, None])
        for row in range(specimen.source.shape[0])
    ]
    return worst({msg("sentence {row}").fill(row): distance(alone[0], together[row]) for row, alone in enumerate(rows)})
