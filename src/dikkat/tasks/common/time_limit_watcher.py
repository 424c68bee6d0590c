"""Warn in the first seconds of a run whose time limit leaves too few updates."""

from __future__ import annotations

from dikkat.config import RunConfig
from dikkat.tasks.common.fitting import LEARNING_SHARE, advised_minutes, needed_updates
from dikkat.training.task import Validation
from dikkat.training.watching import StepReport, Watcher
from dikkat_runtime.errors import plural

FIRST_UPDATES = 3
"""Updates that are timed. The first is left out, since it includes one-time costs."""
LONG_UPDATE = 2.0
"""Seconds of an update that is long enough to be judged alone."""


class TimeLimitWatcher(Watcher):
    """Forward every report to `inner`, and warn once if the time limit leaves too few updates."""

    def __init__(self, inner: Watcher, config: RunConfig, batches_per_epoch: int, can_shrink: bool) -> None:
        self._inner = inner
        self._config = config
        self._batches = batches_per_epoch
        self._can_shrink = can_shrink
        self._seconds: list[float] = []
        self._is_done = config.training.minutes is None

    def note(self, text: str) -> None:
        """Forward a note."""
        self._inner.note(text)

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Forward the result of a validation."""
        self._inner.validation(row, validation_result, is_best)

    def step(self, report: StepReport) -> None:
        """Forward the report of an update, and time the first ones."""
        self._inner.step(report)
        if self._is_done or report.seconds_left is None:
            return
        self._seconds.append(report.seconds)
        if len(self._seconds) < FIRST_UPDATES and report.seconds < LONG_UPDATE:
            return
        self._is_done = True
        if warning := self._warning(max(1e-6, min(self._seconds[1:] or self._seconds)), report.seconds_left):
            self._inner.note(warning)

    def _warning(self, seconds: float, left: float) -> str:
        training, done = self._config.training, len(self._seconds)
        needed = needed_updates(self._config, self._batches)
        fitting = done + int(LEARNING_SHARE * left / seconds)
        if fitting >= needed:
            return ""
        minutes = advised_minutes(training.minutes or 0.0, fitting, needed, seconds)
        smaller = "a smaller model, as --preset tiny, or " if self._can_shrink else ""
        passes = fitting * training.accumulate / self._batches
        return (
            f"too little time: at {seconds:.2g} s an update it holds about {plural(fitting, 'update')}"
            f" ({passes:.2g} passes), and a model needs some {needed:,} to be of use; give {smaller}--minutes {minutes}"
        )
