"""Child of classifier_speed.py: dikkat's own trainer of a classifier, stopped after some updates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dikkat.kernels.environment import set_environment

# as the command does, before torch is loaded
set_environment()

import torch  # noqa: E402
from benchmarks.contenders.dikkat_training import FAR_AWAY, Stopwatch  # noqa: E402
from benchmarks.contenders.memory import resident_bytes  # noqa: E402

from dikkat.config import merge  # noqa: E402
from dikkat.kernels.processor import keep_freed_memory  # noqa: E402
from dikkat.run_directory import RunDirectory  # noqa: E402
from dikkat.tasks.classification.train import ClassifierJob  # noqa: E402
from dikkat.tasks.common.settings import Request, run_config  # noqa: E402
from dikkat.training.budget import UpdateBudget  # noqa: E402
from dikkat.training.loop import Trainer  # noqa: E402
from dikkat.training.precision import precision_of  # noqa: E402


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    keep_freed_memory()
    prepared = RunDirectory.open(Path(job["run"]))
    settings: dict[str, Any] = prepared.read_config()
    config = run_config({**merge(settings, job["changes"])}, str(prepared.config))
    task, out = ClassifierJob(Request(())).task(prepared, config), RunDirectory.create(Path(job["out"]))
    precision = precision_of(config.training, task.model)
    trainer = Trainer(task, out, config.training, UpdateBudget(FAR_AWAY), precision)
    watch = Stopwatch()
    trainer.train(watch, should_stop=lambda: len(watch.reports) == job["warm"] + job["steps"])
    return {
        "seconds": [report.seconds for report in watch.reports],
        "texts": [report.count for report in watch.reports],
        "losses": [report.loss for report in watch.reports],
        "parameters": trainer.parameters.master.numel(),
        "peak_bytes": resident_bytes("VmHWM"),
        "versions": {"torch": torch.__version__},
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
