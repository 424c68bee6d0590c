"""Child of scaling.py: one rank of a training on random pairs, and what each part of an update takes it."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dikkat.kernels.environment import set_environment

# as the command does, before torch is loaded
set_environment()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from benchmarks.contenders.no_validator import NoValidator  # noqa: E402
from torch import Tensor  # noqa: E402

from dikkat.config import ModelConfig, TrainingConfig  # noqa: E402
from dikkat.data.batching import collate  # noqa: E402
from dikkat.data.corpus import Corpus  # noqa: E402
from dikkat.kernels.processor import keep_freed_memory  # noqa: E402
from dikkat.models.factory import build_model  # noqa: E402
from dikkat.run_directory import RunDirectory  # noqa: E402
from dikkat.training import optimizer  # noqa: E402
from dikkat.training.budget import UpdateBudget  # noqa: E402
from dikkat.training.distributed.environment import own_rank  # noqa: E402
from dikkat.training.distributed.process_group import joined  # noqa: E402
from dikkat.training.distributed.ranks import EarlyPart, Ranks  # noqa: E402
from dikkat.training.loop import Trainer  # noqa: E402
from dikkat.training.optimizer import orthogonalize  # noqa: E402
from dikkat.training.precision import precision_of  # noqa: E402
from dikkat.training.task import Part  # noqa: E402
from dikkat.training.translation import TranslationTask  # noqa: E402

PAIRS = 6_000
FAR_AWAY = 1_000_000
EXCHANGED = (1_000, 100_000, 1_000_000, 10_000_000)
"""Entries of float32 whose sum over all ranks is timed."""


class TimedRanks:
    """Passes everything on to `ranks`, and adds up the seconds of the parts of an update.

    Exchanges count by the wall, without those beside a backward pass; all else by the processor, which on one thread is
    the same where nothing else runs.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self.seconds = {"compute": 0.0, "exchange": 0.0, "matrices": 0.0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ranks, name)

    def sum_parts(self, number: int, part: Callable[[int], Tensor], early: EarlyPart | None = None) -> Tensor:
        before = time.perf_counter()
        computed = 0.0

        def timed(index: int, *hand_over: Callable[[Tensor], None]) -> Tensor:
            nonlocal computed
            began, began_on_processor = time.perf_counter(), time.process_time()
            gradient = early.compute(index, *hand_over) if early is not None and hand_over else part(index)
            computed += time.perf_counter() - began
            self.seconds["compute"] += time.process_time() - began_on_processor
            return gradient

        total = self._ranks.sum_parts(number, timed, None if early is None else early._replace(compute=timed))
        self.seconds["exchange"] += time.perf_counter() - before - computed
        return total

    def complete(self, vector: Tensor, spans: Sequence[Sequence[slice]]) -> None:
        began = time.perf_counter()
        self._ranks.complete(vector, spans)
        self.seconds["exchange"] += time.perf_counter() - began

    def timed(self, orthogonalize: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return `orthogonalize` that adds its seconds to those of the matrices."""

        def call(matrices: Tensor) -> Tensor:
            began = time.process_time()
            result = orthogonalize(matrices)
            self.seconds["matrices"] += time.process_time() - began
            return result

        return call


def random_corpus(folder: Path, vocabulary: int) -> Corpus:
    """Pairs of random ids, as long as the sentences of multi30k: 14 tokens, give or take 4."""
    generator = np.random.default_rng(1)
    lengths = np.clip(generator.normal(14, 4, (PAIRS, 2)).round(), 3, 60).astype(int)
    sides = [[generator.integers(4, vocabulary, count).tolist() for count in row] for row in lengths]
    return Corpus.build(folder, "train", [(source, target) for source, target in sides])


def main(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    keep_freed_memory()
    with joined(own_rank(), uses_gpu=False) as own:
        ranks: Any = TimedRanks(own)
        patch.object(optimizer, "orthogonalize", ranks.timed(orthogonalize)).start()
        config = TrainingConfig(**job["training"])
        model = build_model(ModelConfig(**job["model"]), 3)
        task = TranslationTask(model, random_corpus(folder, job["model"]["vocab_size"]), NoValidator(), config)
        budget = UpdateBudget(FAR_AWAY, ranks.clock(time.monotonic))
        run = RunDirectory.create(folder / "run")
        trainer = Trainer(task, run, config, budget, precision_of(config, model, torch.device("cpu")), ranks)
        ranks.tick(False)
        startup = time.time() - job["launched"]
        updates = [update(trainer, ranks) for _ in range(job["warm"] + job["updates"])][job["warm"] :]
        return {
            "startup": startup,
            "updates": updates,
            "reading": reading_seconds(task, Part(own.index, own.count)),
            "exchanges": {str(4 * size): exchange_seconds(own, size) for size in EXCHANGED},
            "parameters": trainer.parameters.master.numel(),
            "matrices": [list(shape) for _, count, shape in trainer.optimizer.groups for _ in range(count)],
            "precision": str(trainer.precision),
        }


def update(trainer: Trainer, ranks: TimedRanks) -> dict[str, float]:
    """Make one update; returns its seconds, by the wall and of the processor, and those of its parts."""
    before = dict(ranks.seconds)
    wall, processor = time.perf_counter(), time.process_time()
    sums, count = trainer.launch(0.1)
    sums.tolist()
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor, "tokens": count}
    return seconds | {name: spent - before[name] for name, spent in ranks.seconds.items()}


def reading_seconds(task: TranslationTask, part: Part) -> float:
    """Seconds that the part of a rank of one batch takes to be read and padded."""
    began = time.process_time()
    for position in range(task.batches_per_epoch):
        collate(task.corpus, part.of(task.plan.at(position)[1]))
    return (time.process_time() - began) / task.batches_per_epoch


def exchange_seconds(ranks: Ranks, size: int) -> float:
    """Fewest seconds of five sums of a vector over all ranks."""
    vector = torch.ones(size)
    spent = []
    for _ in range(5):
        ranks.tick(False)
        began = time.perf_counter()
        ranks.sum_parts(ranks.count, lambda part: vector)
        spent.append(time.perf_counter() - began)
    return min(spent)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(main(json.loads(sys.argv[1]), Path(name))))
