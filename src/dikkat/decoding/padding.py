"""Pad the ids of a batch to one length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat_runtime.special_tokens import EOS_ID, PAD_ID


def pad_sources(
    sentences: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return source ids with their end tokens, padded to the longest, and the mask that is True at real tokens."""
    width = max(len(sentence) for sentence in sentences) + 1
    rows = [[*sentence, EOS_ID] + [PAD_ID] * (width - len(sentence) - 1) for sentence in sentences]
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    # (B,) -> (B, S)
    source_mask = torch.arange(width) < lengths.unsqueeze(1)
    return torch.tensor(rows, dtype=torch.int64).to(device), source_mask.to(device)
