"""The weights of a run, put into a new model."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from dikkat.errors import DataError
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.parameters import FlatParameters


def load_weights(model: nn.Module, run: RunDirectory, checkpoint: Path | None = None) -> None:
    """Copy the weights of `run`, or those that a checkpoint of it would train on with, into `model`.

    Raises `MissingInputError`, or `DataError` naming the file that is damaged or the first parameter that does not fit.
    """
    file = run.weights if checkpoint is None else checkpoint / run.weights.name
    tensors = run.load_weights() if checkpoint is None else read_tensors(file)
    parameters = FlatParameters(model)
    try:
        parameters.fill(parameters.master, tensors)
    except RuntimeError as error:
        raise DataError(f"{file}: does not fit {run.config}: {error}") from None
