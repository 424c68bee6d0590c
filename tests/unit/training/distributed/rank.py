"""One rank of a toy training, as a process: `python -m tests.unit.training.distributed.rank FOLDER UPDATES adamw`.

With the variable `DIE="RANK UPDATE SHARE"` that rank dies after that update, when it has computed for the given share
of an update: by its own clock, since whoever watches it may be told of the update when all are over.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.training.toy import Recorder, toy_trainer

from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.environment import own_rank
from dikkat.training.distributed.process_group import joined
from dikkat.training.distributed.ranks import LostRankError, Ranks
from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision
from dikkat.training.task import StepReport

SETTINGS: dict[str, Any] = {
    "micro_batches": 4,
    "tokens_per_batch": 80,
    "dropout": 0.2,
    "validations": 12,
    "seed": 5,
}
"""Four parts an update, with dropout, and a checkpoint every fifth of sixty updates."""


def trainer_of(folder: Path, ranks: Ranks, updates: int, optimizer: str = "muon", *, resume: bool = False) -> Trainer:
    """Return the toy trainer of a rank; only that of the first one writes its folder."""
    toy = toy_trainer(folder / str(ranks.index), updates=updates, resume=resume, optimizer=optimizer, **SETTINGS)
    budget = UpdateBudget(updates, ranks.clock(time.monotonic))
    return Trainer(toy.task, toy.run, toy.config, budget, Precision(), ranks)


def _report_of(index: int) -> Callable[[StepReport], None]:
    """Return what prints the number of each update, and dies after one."""
    doomed, last, share = os.environ.get("DIE", "-1 0 0").split()
    began = time.process_time()

    def report(step: StepReport) -> None:
        print(step.updates, flush=True)
        if (index, step.updates) == (int(doomed), int(last)):
            # the signal of this timer ends a process like SIGKILL
            signal.setitimer(signal.ITIMER_PROF, float(share) * (time.process_time() - began) / step.updates)

    return report


def main(folder: Path, updates: int, optimizer: str) -> int:
    """Train as the rank that the environment names, and print the number of each update."""
    try:
        with joined(own_rank(), uses_gpu=False) as ranks:
            trainer = trainer_of(folder, ranks, updates, optimizer)
            watcher = Recorder(each_step=_report_of(ranks.index))
            trainer.train(watcher)
            print(f"validated {trainer.state.best_score} {len(trainer.recovery.saver.rows)}")
    except LostRankError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
