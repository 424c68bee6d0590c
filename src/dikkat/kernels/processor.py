"""The processor probe: which number type pays, and how memory is best kept."""

import ctypes
import platform

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat_runtime.native.cpu import processor_flags

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 1 << 30


def has_fast_bfloat16() -> bool:
    """Return whether bfloat16 matrix products run in hardware (AVX512-BF16 or AMX)."""
    return bool(processor_flags() & {"avx512_bf16", "amx_bf16"})


def has_fast_int8() -> bool:
    """Return whether eight-bit integers multiply faster than any other numbers.

    With VNNI at twice the rate of bfloat16, and so in AMX; with AVX2, where that is all, at 1.4 times that of float32.
    """
    flags = processor_flags()
    has_avx2_alone = "avx2" in flags and "avx512f" not in flags
    return bool(flags & {"avx512_vnni", "avx_vnni"}) or has_avx2_alone


def processor_name() -> str:
    """A short name for logs and cards."""
    kinds = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in processor_flags()]
    return f"{platform.machine()} ({kinds[0] if kinds else 'no vector flags known'})"


def keep_freed_memory() -> bool:
    """Let the C library keep freed tensors instead of handing each back to the kernel, and say whether it does.

    Otherwise every large tensor of every training step is mapped and faulted in anew, page by page.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEEP)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))


def give_back_freed_memory() -> bool:
    """Let the C library hand back all that it keeps and nobody uses, and say whether it can.

    Tensors of ever new sizes break what it keeps into pieces that the next one does not fit into, and it grows.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    trim(0)
    return True


def to_device(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array to `device`: to a GPU from pinned memory, in the order of its other work, so that nobody waits."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
