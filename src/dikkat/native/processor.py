"""The processor probe: which number type pays, and how memory is best kept."""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 1 << 30
# of /proc/cpuinfo: x86, ARM, RISC-V, POWER and System z
_KIND = (
    "flags",
    "Features",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "isa",
    "cpu",
    "features",
)


@cache
def processor_flags() -> frozenset[str]:
    """Instruction-set flags of the first processor as Linux names them; empty where it does not say."""
    return frozenset(_described().get("flags", "").split())


@cache
def processor_kind() -> str:
    """What code compiled for this processor needs, in one text that differs where such code may not run.

    Processors of other makers than Intel and AMD tell their features under other names; where Linux tells none, each
    computer is a kind of its own.
    """
    described = _described()
    told = [f"{name}: {' '.join(sorted(described[name].split()))}" for name in _KIND if name in described]
    return "\n".join([platform.machine(), *(told or [platform.node()])])


def _described() -> dict[str, str]:
    """What Linux says of the first processor, and of all of them together, by name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n"))
    # of equal names the last counts, and that is to be the first processor's
    return {name.strip(): value for name, _, value in reversed([*lines])}


def has_fast_bfloat16() -> bool:
    """Whether bfloat16 matrix products run in hardware (AVX512-BF16 or AMX)."""
    return bool(processor_flags() & {"avx512_bf16", "amx_bf16"})


def has_fast_int8() -> bool:
    """Whether bytes multiply faster than any other numbers.

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
