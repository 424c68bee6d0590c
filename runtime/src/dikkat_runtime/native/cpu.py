"""Read the features of this processor, and which of the built libraries it can run."""

import math
import os
import platform
from functools import cache
from pathlib import Path

# of /proc/cpuinfo: x86, ARM, RISC-V, POWER and System z
_KIND = (
    "flags", "Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "isa", "cpu", "features",
)  # fmt: skip

NEEDS: dict[str, frozenset[str]] = {
    "amx": frozenset({"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16", "avx512_vnni", "avx512vl", "avx512bw"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}),
    "avx2": frozenset({"avx2", "fma", "bmi2", "f16c"}),
}
"""Processor flags, as Linux names them, that each level of a wheel needs; the best level first."""


LOAD = Path("/proc/loadavg")
QUOTAS = (
    ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu.max"),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
"""Files of the limit and of its period, of control groups of version 2 and 1, as a container sees its own."""


@cache
def processor_flags() -> frozenset[str]:
    """Return the instruction-set flags of the first processor as Linux names them; empty where it names none."""
    return frozenset(_described().get("flags", "").split())


@cache
def processor_kind() -> str:
    """Return a text that differs between processors on which code compiled for one may not run on the other.

    Processors of other makers than Intel and AMD list their features under other names; where Linux lists none, each
    computer is a kind of its own.
    """
    described = _described()
    features = [f"{name}: {' '.join(sorted(described[name].split()))}" for name in _KIND if name in described]
    return "\n".join([platform.machine(), *(features or [platform.node()])])


def _described() -> dict[str, str]:
    """Return the description of the first processor and of all together, by name, as Linux gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _described_by_macos()
    lines = (line.partition(":") for line in text.split("\n"))
    # of equal names the last counts, which must be that of the first processor
    return {name.strip(): value for name, _, value in reversed([*lines])}


def _described_by_macos() -> dict[str, str]:
    """Return the flags of an Intel Mac, which are those of Linux in capitals; other systems without /proc name none."""
    if platform.system() != "Darwin":
        return {}
    import subprocess

    names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    flags = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, check=False).stdout.lower()
    return {"flags": flags} if flags else {}


def levels() -> list[str]:
    """Return the levels that this processor can run, the best first."""
    if platform.machine() in ("aarch64", "arm64"):
        return ["armv8"]  # what every such processor has
    return [level for level, needed in NEEDS.items() if needed <= processor_flags()]


def available_threads() -> int:
    """Return the number of threads to compute with: `OMP_NUM_THREADS`, else the processors that this process may use.

    A container's share of the processors (cgroup quota) counts, rounded up.
    """
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return usable_processors()


def usable_processors() -> int:
    """Return the processors of the affinity of this process, and of the quota of its container, rounded up."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return usable if quota is None else max(1, min(usable, math.ceil(quota)))


def free_threads(threads: int) -> int:
    """Return at most `threads`, and no more than there are processors on which nothing else runs now; at least 1.

    Use it for work so small that a thread which has to wait for its processor costs more than a second one gains.
    """
    try:
        # not by `open`, which takes longer than all the rest
        file = os.open(LOAD, os.O_RDONLY)
        try:
            # the fourth number: tasks that run or could run now, this thread among them
            running = int(os.read(file, 256).split()[3].partition(b"/")[0])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return threads
    return max(1, min(threads, (os.cpu_count() or 1) - (running - 1)))


def _quota() -> float | None:
    """Return the processors that the control group of this process may use, or None where that is not limited."""
    for path, other in QUOTAS:
        try:
            limit, period = (Path(name).read_text(encoding="ascii").split() for name in (path, other))
        except OSError:
            continue
        # version 2 has both numbers in one file
        numbers = limit if path == other else [*limit, *period]
        if len(numbers) == 2 and all(number.isdigit() and int(number) > 0 for number in numbers):
            return int(numbers[0]) / int(numbers[1])
    return None
