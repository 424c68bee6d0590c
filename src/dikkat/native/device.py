"""Where a model computes: on the processor, or on a CUDA GPU; and how numbers get there without anybody waiting."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.config import Device
from dikkat.errors import UsageError
from dikkat.native.processor import processor_name


def find_device(name: Device) -> torch.device:
    """The device of that name. Raises `UsageError` for a GPU that PyTorch does not see."""
    if name == "cuda" and not torch.cuda.is_available():
        why = "sees no GPU" if torch.version.cuda else "was built without CUDA"
        raise UsageError(f"device cuda: the installed PyTorch ({torch.__version__}) {why}; use cpu")
    return torch.device(name)


def moved(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """The numbers on `device`; to a GPU from pinned memory, so that it takes them after what it has still to do."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def device_name(device: torch.device) -> str:
    """A short name for logs."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
