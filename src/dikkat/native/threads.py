"""How many threads the native encoder and decoder take: PyTorch's, unless this thread was given a share of them."""

from __future__ import annotations

import threading

import torch

_own = threading.local()


def share_threads(count: int) -> None:
    """From now on, native code that is called in this thread takes so many."""
    _own.count = count


def num_threads() -> int:
    """Of native code that is called in this thread."""
    return getattr(_own, "count", 0) or torch.get_num_threads()
