"""The doctor's patients: the model of a run directory, or of one of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from dikkat.config import RunConfig
from dikkat.explain.doctor import Proof, examine
from dikkat.explain.doctor.specimen import Patient
from dikkat.models.factory import build_classifier, build_language_model, build_model
from dikkat.pipelines.settings import run_config
from dikkat.pipelines.weights import build_checked, load_weights
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import UsageError


def examine_path(path: Path, seed: int = 1) -> list[Proof]:
    """Every proof on the model at `path`, a run directory or one folder of its `checkpoints`.

    Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a model
    whose settings are unknown or whose learned positions are too few to be examined.
    """
    return examine(load_model(path), seed)


def load_model(path: Path) -> Patient:
    """The model at `path` in float32: a run's best weights, or those that a checkpoint would train on with."""
    is_checkpoint = path.resolve().parent.name == "checkpoints" and not (path / "config.json").exists()
    # a checkpoint shares the settings of its run, two levels up
    run = RunDirectory.open(path.resolve().parents[1] if is_checkpoint else path)
    checkpoint = path if is_checkpoint else None
    model = _new_model(run, checkpoint)
    load_weights(model, run, checkpoint, must_be_finite=False)
    return model.eval()


def _new_model(run: RunDirectory, checkpoint: Path | None) -> Patient:
    config = run_config(run.read_config(), str(run.config))
    return build_checked(run, config.model, _builder(run, config), checkpoint)


def _builder(run: RunDirectory, config: RunConfig) -> Callable[[], Patient]:
    match run.read_config().get("task", "translator"):
        case "translator":
            return partial(build_model, config.model, 0)
        case "classifier":
            return partial(build_classifier, config.model, config.classifier, len(run.labels()), 0)
        case "lm":
            return partial(build_language_model, config.model, config.language_model.objective, 0)
        case task:
            raise UsageError(f'{run.path}: holds a "{task}", which the doctor cannot examine')
