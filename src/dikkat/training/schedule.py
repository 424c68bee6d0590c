"""The learning rate of every update, as a share of its peak."""

from __future__ import annotations


def learning_rate(progress: float, updates: int, warmup_updates: int, final: float) -> float:
    """Return the share of the peak rate: a linear rise, then a linear fall to `final` at the end of the run.

    The rise ends after `warmup_updates` or a tenth of the run, whichever comes first. `progress` is the share of the
    run that is done, `updates` its number of updates so far.
    """
    rise = 1.0 if warmup_updates == 0 else max((updates + 1) / warmup_updates, progress / 0.1)
    return min(1.0, rise) * (final + (1.0 - final) * (1.0 - progress))
