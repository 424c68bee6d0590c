"""The encoder of a classifier, with its pooling, as a source of vectors."""

from __future__ import annotations

from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.opening import open_classifier
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.embedder import Embedder, of_classifier


def classifier_embedder(run: RunDirectory, engine: EngineName, precision: PrecisionName, device: Device) -> Embedder:
    """The vector of a line is what its class is read off. Raises as `open_classifier`."""
    return of_classifier(open_classifier(run.path, engine, precision, device))
