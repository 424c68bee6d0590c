"""How numbers get to the device that computes, without anybody waiting."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def moved(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """The numbers on `device`; to a GPU from pinned memory, so that it takes them after what it has still to do."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
