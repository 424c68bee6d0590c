"""The doctor's patients: the model of a run directory, or of one of its checkpoints."""

from __future__ import annotations

from pathlib import Path

from dikkat.errors import DataError
from dikkat.explain.doctor import Proof, examine
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.pipelines.settings import run_config
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.parameters import FlatParameters


def examine_path(path: Path, seed: int = 1) -> list[Proof]:
    """Every proof on the model at `path`, a run directory or one folder of its `checkpoints`.

    Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a model
    whose settings are unknown or whose learned positions are too few to be examined.
    """
    return examine(load_model(path), seed)


def load_model(path: Path) -> EncoderDecoder:
    """The model at `path` in float32: a run's best weights, or those that a checkpoint would train on with."""
    is_checkpoint = path.resolve().parent.name == "checkpoints" and not (path / "config.json").exists()
    # a checkpoint shares the settings of its run, two levels up
    run = RunDirectory.open(path.resolve().parents[1] if is_checkpoint else path)
    model = build_model(run_config(run.read_config(), str(run.config)).model, seed=0)
    weights = path / "model.safetensors" if is_checkpoint else run.weights
    tensors = read_tensors(weights) if is_checkpoint else run.load_weights()
    parameters = FlatParameters(model)
    try:
        parameters.fill(parameters.master, tensors)
    except RuntimeError as error:
        raise DataError(f"{weights}: does not fit {run.config}: {error}") from None
    return model.eval()
