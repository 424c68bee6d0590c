"""What this processor can do, and which of the built libraries it can run."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

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

NEEDS: dict[str, frozenset[str]] = {
    "amx": frozenset({"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16", "avx512_vnni", "avx512vl", "avx512bw"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}),
    "avx2": frozenset({"avx2", "fma", "bmi2", "f16c"}),
}
"""Processor flags, as Linux names them, that each level of a wheel needs; the best level first."""


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


def levels() -> list[str]:
    """Levels that this processor can run, the best first."""
    return [level for level, needed in NEEDS.items() if needed <= processor_flags()]


def available_threads() -> int:
    """Threads to compute with: `OMP_NUM_THREADS` where it is set, else the processors that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
