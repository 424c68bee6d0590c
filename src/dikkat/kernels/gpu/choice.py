"""The choice of tensors that the kernels of this folder take; only what they take leads to an import of Triton."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from dikkat.kernels.switch import chosen

DEVICE = "cuda"
"""Type of the devices whose tensors are taken; tests put "cpu" here, where Triton interprets its kernels."""
LAST_OFFSET = 2**31 - 1
"""Larger tensors are PyTorch's: offsets within one are 32 bits wide, except where a kernel says otherwise."""


def runs_triton(*tensors: Tensor) -> bool:
    """Tell whether the kernels take these: on a GPU that Triton knows, in one type, bfloat16 or float32, not huge.

    `kernels.use("torch")` and `DIKKAT_NATIVE=0` leave everything to PyTorch, which is also taken where Triton is not
    installed.
    """
    if any(tensor.device.type != DEVICE or tensor.numel() > LAST_OFFSET for tensor in tensors):
        return False
    types = {tensor.dtype for tensor in tensors}
    if len(types) != 1 or not types <= {torch.float32, torch.bfloat16}:
        return False
    return chosen() != "torch" and _is_ready()


@cache
def _is_ready() -> bool:
    """Tell whether Triton is installed and the GPU has products in bfloat16."""
    if find_spec("triton") is None:
        return False
    return DEVICE == "cpu" or torch.cuda.get_device_capability() >= (8, 0)
