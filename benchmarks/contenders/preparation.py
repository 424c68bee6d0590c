"""Child of train_speed.py: raw text to a run directory, and its first batches as ids that any side can read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.config import RunConfig
from dikkat.data.batching import Batch, BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat_runtime.special_tokens import PAD_ID


def main(job: dict[str, Any]) -> dict[str, Any]:
    run = RunDirectory.create(Path(job["run"]))
    data = Path(job["data"])
    train, validation = ([str(data / f"{part}.{side}.gz") for side in ("en", "de")] for part in ("train", "val"))
    config, _ = prepare(TrainRequest(train, validation, preset="small", settings=job["settings"]), run)
    corpus = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size)
    batches = first_batches(corpus, config, job["batches"])
    write(Path(job["ids"]), batches)
    return {
        "pairs": len(corpus),
        "vocab_size": config.model.vocab_size,
        "source_tokens": [int(np.count_nonzero(batch.source != PAD_ID)) for batch in batches],
        "target_tokens": [batch.num_tokens for batch in batches],
        "padded_tokens": [max(batch.source.size, batch.target_output.size) for batch in batches],
    }


def first_batches(corpus: Corpus, config: RunConfig, count: int) -> list[Batch]:
    """The batches that training takes first, in its order."""
    training = config.training
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, training.tokens_per_batch, training.seed)
    return [collate(corpus, plan.at(position)[1]) for position in range(count)]


def write(path: Path, batches: list[Batch]) -> None:
    parts = ("source", "target_input", "target_output")
    arrays = {f"{part}_{place}": getattr(batch, part) for place, batch in enumerate(batches) for part in parts}
    np.savez(path, **arrays)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
