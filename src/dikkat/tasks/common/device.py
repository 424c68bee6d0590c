"""Find the device that a user names: the processor or a CUDA GPU."""

import torch

from dikkat.kernels.processor import processor_name
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import UsageError, msg


def find_device(name: Device) -> torch.device:
    """Return the device of that name. Raises `UsageError` for a GPU that PyTorch does not see."""
    if name == "cuda" and not torch.cuda.is_available():
        why = msg("sees no GPU" if torch.version.cuda else "was built without CUDA")
        raise UsageError("device cuda: the installed PyTorch ({version}) {reason}; use cpu", torch.__version__, why)
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """Return a short name of `device` for logs."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
