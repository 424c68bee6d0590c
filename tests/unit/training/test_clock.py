"""A clock that leaves out what the process did not run."""

from __future__ import annotations

import pytest

from dikkat.training.budget import RunningClock


class Machine:
    """Wall time and the processor time of one process."""

    def __init__(self) -> None:
        self.wall, self.busy = 100.0, 3.0
        self.clock = RunningClock(lambda: self.wall, lambda: self.busy)

    def after(self, wall: float, busy: float) -> float:
        self.wall += wall
        self.busy += busy
        return self.clock()


def test_time_that_was_computed_counts() -> None:
    machine = Machine()
    assert machine.after(4.0, 0.0) == 104.0, "a short wait for a disk counts"
    assert machine.after(600.0, 1100.0) == 704.0
    assert machine.after(60.0, 3.5) == 764.0, "on a machine that is busy with other things, too"


@pytest.mark.parametrize("stopped", [10.0, 8 * 3600.0])
def test_a_process_that_was_stopped_did_not_run(stopped: float) -> None:
    machine = Machine()
    machine.after(2.0, 2.0)
    assert machine.after(stopped + 0.3, 0.3) == pytest.approx(102.3)
    assert machine.after(1.0, 1.0) == pytest.approx(103.3), "and the clock goes on from there"
