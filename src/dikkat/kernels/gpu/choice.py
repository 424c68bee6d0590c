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
MAX_REASON_LENGTH = 160
"""Characters that are told of an error, from its end, where Triton says what it is."""


def runs_triton(*tensors: Tensor) -> bool:
    """Tell whether the kernels take these: on a GPU that Triton knows, in one type, bfloat16 or float32, not huge.

    `kernels.use("torch")` and `DIKKAT_NATIVE=0` leave everything to PyTorch, which is also taken where Triton is not
    installed or cannot compile one of the kernels.
    """
    for tensor in tensors:
        if tensor.device.type != DEVICE or tensor.numel() > LAST_OFFSET:
            return False
    types = {tensor.dtype for tensor in tensors}
    if len(types) != 1 or not types <= {torch.float32, torch.bfloat16}:
        return False
    return not why_absent()


def why_absent() -> str:
    """Say in a few words why PyTorch computes instead on the GPU of this process; the text is empty where it does not.

    The first call compiles every kernel and starts it once, so that what a run computes with is decided before its
    first update.
    """
    return "PyTorch is asked for" if chosen() == "torch" else _failure()


@cache
def _failure() -> str:
    if find_spec("triton") is None:
        return "Triton is not installed"
    if DEVICE == "cpu":
        return ""
    if torch.cuda.get_device_capability() < (8, 0):
        return "the GPU has no products in bfloat16"
    try:
        from dikkat.kernels.gpu.probe import launch_all

        launch_all(torch.device(DEVICE), torch.bfloat16)
        torch.cuda.synchronize()
    except Exception as error:  # of Triton, of its compilers, of the driver: each has its own
        return f"{type(error).__name__}: {' '.join(str(error).split())[-MAX_REASON_LENGTH:]}"
    return ""
