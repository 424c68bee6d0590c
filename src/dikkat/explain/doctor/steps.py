"""Check that decoding step by step equals teacher forcing, at the right position."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.explain.doctor.specimen import Specimen, distance, worst
from dikkat.nn.recorder import MapName, record_attention

ROWS = 2
"""Hypotheses of one sentence, as in beam search."""
FIRST = MapName("decoder", 0, "self")


def misplaced_steps(specimen: Specimen) -> tuple[float, str]:
    """Compare the attention of the first decoder layer at step t with teacher forcing of t+1 tokens.

    The sentence is one token over and over, so that nothing but its position tells one place from another. Teacher
    forcing ends at t, so it has no future that it could see.
    """
    target = specimen.target[:, :1].expand_as(specimen.target)
    length = target.shape[1]
    with torch.no_grad():
        steps = specimen.begin()
        with record_attention(specimen.model, lambda name: name == FIRST) as maps:
            for position in range(length):
                steps.step(target[:, position])
            for position in range(length):
                specimen.forced(target[:, : position + 1])
    # (B, H, 1, S) of the steps, (B, H, T, S) of teacher forcing -> (B, H, S)
    rows = [weights[:, :, -1] for weights in maps[FIRST]]
    stepped, forced = rows[:length], rows[length:]
    return worst({f"step {position}": distance(stepped[position], forced[position]) for position in range(length)})


def cached_steps_difference(specimen: Specimen) -> tuple[float, str]:
    """Compare the logits of cached steps with teacher forcing; two hypotheses a sentence are swapped half-way."""
    targets = specimen.tokens(specimen.source.shape[0] * ROWS, specimen.target.shape[1])
    half = targets.shape[1] // 2
    swapped = torch.arange(len(targets), device=targets.device).view(-1, ROWS).flip(1).flatten()
    # row r begins as the hypothesis beside it
    joined = torch.cat((targets[swapped, :half], targets[:, half:]), dim=1)
    with torch.no_grad():
        forced = specimen.forced(joined, ROWS)
        stepped = _walk(specimen, targets, half, swapped)
    return worst(
        {
            f"step {position}": distance(stepped[:, position], forced[:, position])
            for position in range(targets.shape[1])
        }
    )


def _walk(specimen: Specimen, targets: Tensor, half: int, swapped: Tensor) -> Float[Tensor, "R T V"]:
    steps = specimen.begin(ROWS)
    before = [steps.step(targets[:, position])[swapped] for position in range(half)]
    steps.reorder(swapped)
    after = [steps.step(targets[:, position]) for position in range(half, targets.shape[1])]
    return torch.stack([*before, *after], dim=1)
