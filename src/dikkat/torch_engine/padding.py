"""Pad the ids of a batch to one length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.special_tokens import source_ids


def pad_sources(
    sentences: Sequence[Sequence[int]], device: torch.device, *, add_eos: bool = True
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return source ids padded to the longest, and the mask that is True at real tokens.

    Each source gets its end token if `add_eos`.
    """
    ids, mask = padded([source_ids(sentence, add_eos) for sentence in sentences])
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
