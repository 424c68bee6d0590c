"""The highest resident size of a process."""

from __future__ import annotations

from pathlib import Path

FREED_AT_ONCE = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc", "MIMALLOC_PURGE_DELAY": "0"}
"""Variables for a process whose peak is told: Arrow else gives memory back some milliseconds later, by the clock."""


def peak_mebibytes() -> float:
    """Return the highest resident size of this process in MiB, on Linux.

    `ru_maxrss` is no measure of it: a process begins with that of the one that starts it, below which nothing shows.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024
