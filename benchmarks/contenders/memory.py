"""Resident memory of this process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path


def resident_bytes(name: str) -> int:
    """Of "VmRSS", what is resident now, or "VmHWM", the most that ever was."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").split("\n")
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])
