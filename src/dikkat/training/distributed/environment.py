"""Read what torchrun and `--nproc` wrote into the environment of a rank; nothing here loads PyTorch."""

import os
from dataclasses import dataclass

LAUNCHED = "DIKKAT_LAUNCHED"
"""Environment variable of the ranks of `--nproc`: when their command started them, by `time.monotonic`."""

RESTARTS = "DIKKAT_RESTARTS"
"""Environment variable of the ranks of `--nproc`: how often their command started ranks again."""

LAUNCHER = "DIKKAT_LAUNCHER"
"""Environment variable of the ranks of `--nproc`: the value of --launcher."""

MAX_RESTARTS = "DIKKAT_MAX_RESTARTS"
"""Environment variable of the ranks of `--nproc`: the value of --max-restarts."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """Hold which of how many ranks this process is."""

    index: int = 0
    count: int = 1
    local_index: int = 0
    """Index among the ranks of this machine."""
    restarts: int = 0
    """How often the ranks were started again."""
    launched: float | None = None
    """When the command started the ranks, where `--nproc` started the ranks."""
    launcher: str = "torchrun"
    """What started the ranks, as --launcher names it."""
    max_restarts: int = 0
    """How often they may be started again by themselves, where `--nproc` started the ranks."""

    @property
    def is_first(self) -> bool:
        return self.index == 0


ALONE = RankInfo()


def is_started_by_torchrun() -> bool:
    """Tell whether this process is a rank that `--nproc` started with torchrun, not with Ray."""
    return LAUNCHED in os.environ and os.environ.get(LAUNCHER, ALONE.launcher) == "torchrun"


def own_rank() -> RankInfo:
    """Return the index that torchrun gave this process; a process of its own is the first of one."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ALONE
    restart_count = RESTARTS if LAUNCHED in os.environ else "TORCHELASTIC_RESTART_COUNT"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", restart_count)
    index, count, local_index, restarts = (int(os.environ[name]) for name in names)
    if LAUNCHED not in os.environ:
        return RankInfo(index, count, local_index, restarts)
    launched, launcher = float(os.environ[LAUNCHED]), os.environ.get(LAUNCHER, ALONE.launcher)
    return RankInfo(
        index, count, local_index, restarts, launched, launcher, int(os.environ.get(MAX_RESTARTS, ALONE.max_restarts))
    )
