"""Child of train_speed.py: the trainer of dikkat itself, stopped after some updates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dikkat.kernels.environment import set_environment

# as the command does, before torch is loaded
set_environment()

import torch  # noqa: E402
from benchmarks.contenders.memory import resident_bytes  # noqa: E402

from dikkat.kernels.processor import keep_freed_memory  # noqa: E402
from dikkat.run_directory import RunDirectory  # noqa: E402
from dikkat.tasks.common.settings import run_config  # noqa: E402
from dikkat.tasks.translation.prepare import TrainRequest  # noqa: E402
from dikkat.tasks.translation.train import TranslatorJob  # noqa: E402
from dikkat.training.budget import UpdateBudget  # noqa: E402
from dikkat.training.loop import Trainer  # noqa: E402
from dikkat.training.precision import precision_of  # noqa: E402
from dikkat.training.task import StepReport, Validation  # noqa: E402

FAR_AWAY = 1_000_000
"""Updates of the planned run: no validation falls into the measurement."""


class Stopwatch:
    """Keeps what the trainer reports of each update."""

    def __init__(self) -> None:
        self.reports: list[StepReport] = []

    def step(self, report: StepReport) -> None:
        self.reports.append(report)

    def note(self, text: str) -> None:
        """Nothing is told."""

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
        raise RuntimeError("a validation fell into the measurement")


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    trainer = open_trainer(RunDirectory.open(Path(job["run"])), RunDirectory.create(Path(job["out"])))
    watch = Stopwatch()
    trainer.train(watch, should_stop=lambda: len(watch.reports) == job["warm"] + job["steps"])
    return {
        "seconds": [report.seconds for report in watch.reports],
        "target_tokens": [report.count for report in watch.reports],
        "losses": [report.loss for report in watch.reports],
        "dtype": str(trainer.parameters.working.dtype).removeprefix("torch."),
        "precision": str(trainer.precision),
        "parameters": trainer.parameters.master.numel(),
        "peak_bytes": resident_bytes("VmHWM"),
        "versions": {"torch": torch.__version__},
    }


def open_trainer(prepared: RunDirectory, out: RunDirectory) -> Trainer:
    """A new trainer on the prepared data, as `dikkat train` builds it; it saves into `out`."""
    keep_freed_memory()
    config = run_config(prepared.read_config(), str(prepared.config))
    task = TranslatorJob(TrainRequest(())).task(prepared, config)
    return Trainer(task, out, config.training, UpdateBudget(FAR_AWAY), precision_of(config.training, task.model))


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
