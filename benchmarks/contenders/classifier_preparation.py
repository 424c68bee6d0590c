"""Child of classifier_speed.py: labelled texts to a run directory, and its first batches as ids for any side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.train import ClassifierJob
from dikkat.tasks.common.settings import Request
from dikkat.training.classification import pad_texts


def main(job: dict[str, Any]) -> dict[str, Any]:
    run = RunDirectory.create(Path(job["run"]))
    classifier = ClassifierJob(Request([job["data"]], settings=job["settings"]))
    config, _ = classifier.prepare(run)
    task = classifier.task(run, config)
    corpus = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size)
    arrays: dict[str, Any] = {}
    for place in range(job["batches"]):
        _, indices = task.plan.at(place)
        tokens, _ = pad_texts([corpus.source(index).tolist() for index in indices], task.model.output.weight.device)
        arrays[f"tokens_{place}"] = tokens.numpy()
        arrays[f"labels_{place}"] = corpus.gather(indices, "target")[0]
    np.savez(Path(job["ids"]), **arrays)
    model = config.model.model_dump()
    names = ("vocab_size", "model_dim", "feed_forward_dim", "num_heads", "encoder_layers", "dropout")
    return {
        "texts": len(corpus),
        "classes": len(task.labels),
        "max_tokens": config.classifier.max_tokens,
        "model": {name: model[name] for name in names},
        "label_smoothing": config.training.label_smoothing,
        "clip_norm": config.training.clip_norm,
        "tokens_per_batch": config.training.tokens_per_batch,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
