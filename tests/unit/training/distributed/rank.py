"""One rank of a toy training, as a process: `python -m tests.unit.training.distributed.rank FOLDER UPDATES`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.unit.training.toy import Recorder, toy_trainer

from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.environment import own_rank
from dikkat.training.distributed.process_group import joined
from dikkat.training.distributed.ranks import LostRankError, Ranks
from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision

SETTINGS: dict[str, Any] = {
    "optimizer": "muon",
    "micro_batches": 4,
    "tokens_per_batch": 80,
    "dropout": 0.2,
    "validations": 12,
    "seed": 5,
}
"""Four parts an update, with dropout, and a checkpoint every fifth of sixty updates."""


def trainer_of(folder: Path, ranks: Ranks, updates: int, *, resume: bool = False) -> Trainer:
    """Return the toy trainer of a rank; only that of the first one writes its folder."""
    toy = toy_trainer(folder / str(ranks.index), updates=updates, resume=resume, **SETTINGS)
    budget = UpdateBudget(updates, ranks.clock(time.monotonic))
    return Trainer(toy.task, toy.run, toy.config, budget, Precision(), ranks)


def main(folder: Path, updates: int) -> int:
    """Train as the rank that the environment names, and print the number of each update."""
    try:
        with joined(own_rank(), uses_gpu=False) as ranks:
            trainer = trainer_of(folder, ranks, updates)
            watcher = Recorder(each_step=lambda report: print(report.updates, flush=True))
            trainer.train(watcher)
            print(f"validated {trainer.state.best_score} {len(trainer.saver._rows)}")
    except LostRankError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
