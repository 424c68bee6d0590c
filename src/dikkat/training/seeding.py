"""The seed of dropout, which makes resuming arithmetic."""

from __future__ import annotations

import hashlib

import torch


def seed_dropout(seed: int, update: int, micro_step: int, part: int = 0) -> None:
    """Seed PyTorch's generator as a pure function of the position, so that dropout needs no saved state."""
    digest = hashlib.blake2b(f"{seed} {update} {micro_step} {part}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)
