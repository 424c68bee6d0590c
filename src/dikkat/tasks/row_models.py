"""Open the model of a run for rows of files, by the native or the torch engine."""

from __future__ import annotations

from pathlib import Path

from dikkat.kernels.environment import set_environment
from dikkat.run_directory import RunDirectory
from dikkat.tasks.kinds import kind_name
from dikkat_runtime.shards.job import Job, Task, task_of
from dikkat_runtime.shards.models import ClassifyingModel, EmbeddingModel, RowModel, TranslatingModel

OPENER = "dikkat.tasks.row_models:open_row_model"


def task_of_run(path: Path, *, embed: bool = False) -> Task:
    """Return what the model of a run directory does with rows; with `embed`, vectors whatever it is."""
    return task_of(kind_name(RunDirectory.open(path)), embed=embed)


def open_row_model(job: Job) -> RowModel:
    """Return the model of a run directory for a worker.

    Raises the errors of `open_translator`, `open_classifier` and `Embedder.load`.
    """
    # before PyTorch is loaded, which may not be needed
    set_environment()
    if job.task == "translate":
        from dikkat.tasks.translation.opening import open_translator

        chosen = job.engine, job.precision, job.device
        return TranslatingModel(open_translator(job.run, *chosen, all_words=job.all_words), job)
    if job.task == "classify":
        from dikkat.tasks.classification.opening import open_classifier

        return ClassifyingModel(open_classifier(job.run, job.engine, job.precision, job.device), job)
    from dikkat.tasks.embedding.embedder import Embedder

    return EmbeddingModel(Embedder.load(job.run, job.precision, job.device, job.engine), job)
