"""A language model as a source of vectors."""

from __future__ import annotations

from dikkat.run_directory import RunDirectory
from dikkat.tasks.language_model.opening import open_language_model
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.embedder import Embedder, of_language_model


def language_model_embedder(
    run: RunDirectory, engine: EngineName, precision: PrecisionName, device: Device
) -> Embedder:
    """States before the output matrix. Raises as `open_language_model`."""
    model = open_language_model(run.path, engine, precision, device)
    return of_language_model(run.path, run.read_config(), model)
