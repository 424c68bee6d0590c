"""The classifier of a run directory for whoever only classifies: PyTorch is loaded where it is to compute, else not."""

from __future__ import annotations

from pathlib import Path

from dikkat.tasks.common.engines import choose_engine
from dikkat.tasks.common.settings import settings_of
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.classifier import Classifier


def open_classifier(
    path: Path, engine: EngineName = "auto", precision: PrecisionName = "float32", device: Device = "cpu"
) -> Classifier:
    """The classifier of a run directory by the engine of that name; with "auto", by the native one where it can run.

    Raises `UsageError` for a model of another kind, an engine that cannot run and a device that is not to be had, and
    `MissingInputError` or `DataError` naming the file that is missing or damaged.
    """
    run, settings, _ = settings_of(path, "classifier")
    if choose_engine(run, settings, engine, precision, device).is_native:
        # looks at the file before it is read
        _ = run.labels(), run.metrics, run.tokenizer
        return Classifier.load(path, precision=precision)
    from dikkat.tasks.classification.classifier import Classifier as WithModel

    return WithModel.load(path, precision, device, engine)
