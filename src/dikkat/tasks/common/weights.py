"""Load the weights of a run into a new model, after a check that their shapes fit."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from dikkat.config import ModelConfig
from dikkat.models.factory import check_layers, most_parameters
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import Described, read_header, read_metadata, read_tensors
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.metrics import note_changed_settings
from dikkat_runtime.run.parts import TOKENIZER
from dikkat_runtime.run.weights import STORED_PRECISION, base_of, require_weights
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, load_tokenizer

Model = TypeVar("Model", bound=nn.Module)

_FLOATS = ("F32", "F16", "BF16")
_HARMLESS = 1 << 22
"""Number of parameters that may be allocated without a check."""


def build_checked(
    run: RunDirectory, config: ModelConfig, build: Callable[[], Model], checkpoint: Path | None = None
) -> Model:
    """Build the model of `run` after the header of its weights confirms the size.

    A foreign config.json may ask for a model that fills the memory. `checkpoint` names a folder whose weights are read
    instead. Raises `MissingInputError`, or `DataError` naming the first parameter that does not fit.
    """
    file = run.weights if checkpoint is None else checkpoint / run.weights.name
    if checkpoint is None:
        require_weights(file)
        file = base_of(file) or file
        if read_metadata(file).get(STORED_PRECISION) == "int8":
            raise UsageError("{file}: its weights are in eight bits, with which only the native engine computes", file)
    return _build(run, config, build, file)


def build_to_train(run: RunDirectory, config: ModelConfig, build: Callable[[], Model]) -> Model:
    """Build the model of `run` for training, checked by its newest readable checkpoint if it has one.

    Raises `DataError` like `build_checked`, and `UsageError` for sizes out of range.
    """
    for folder in run.checkpoint_folders():
        # a checkpoint of low-rank updates does not hold the matrices that they are of
        file = run.initial if run.initial.exists() else folder / run.weights.name
        try:
            read_header(file)
        except (DataError, MissingInputError):
            continue  # a damaged checkpoint is passed over, and told of, when the training is taken up
        return _build(run, config, build, file)
    return build()


def load_weights(
    model: nn.Module, run: RunDirectory, checkpoint: Path | None = None, *, must_be_finite: bool = True
) -> None:
    """Copy the weights of `run`, or of one of its checkpoints, into `model`.

    Raises `MissingInputError`, or `DataError` naming the damaged file, or the first parameter that does not fit or, if
    `must_be_finite`, is not finite.
    """
    if checkpoint is None:
        note_changed_settings(run.path)
    file = run.weights if checkpoint is None else checkpoint / run.weights.name
    tensors = run.load_weights() if checkpoint is None else read_tensors(file)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DataError("{file}: damaged: {name} holds no floating-point numbers; restore the file", file, name)
    parameters = _filled(model, tensors, file, run)
    if must_be_finite and not torch.isfinite(parameters.master).all():
        name = next(span.name for span in parameters.spans if not torch.isfinite(span.of(parameters.master)).all())
        raise DataError("{file}: damaged: {name} holds numbers that are not finite; restore the file", file, name)


def load_initial(model: nn.Module, run: RunDirectory) -> None:
    """Copy the weights that `run` begins with into `model`. Raises `DataError` naming the first that does not fit."""
    _filled(model, read_tensors(run.initial), run.initial, run)


def _filled(model: nn.Module, tensors: dict[str, torch.Tensor], file: Path, run: RunDirectory) -> FlatParameters:
    """Return the parameters of `model` with the `tensors` of a file. Raises `DataError` for the first that is unfit."""
    parameters = FlatParameters(model)
    try:
        parameters.fill(parameters.master, tensors)
    except RuntimeError as error:
        raise DataError("{file}: does not fit {config}: {error}", file, run.config, error) from None
    return parameters


def take_tokenizer(run: RunDirectory, start: Path, vocab_size: int, language: str = "") -> AnyTokenizer:
    """Copy the tokenizer of the run at `start` into `run`, and return it. Raises as `load_tokenizer`."""
    write_atomically(run.tokenizer, checked(start, TOKENIZER).read_bytes())
    return load_tokenizer(run.tokenizer, vocab_size, language)


def _build(run: RunDirectory, config: ModelConfig, build: Callable[[], Model], file: Path) -> Model:
    header = read_header(file)
    total = sum(torch.Size(one.shape).numel() for one in header.values())
    try:
        check_layers(config, len(header))
        if most_parameters(config) > 4 * total + _HARMLESS:
            # only the shapes are asked for: nothing is allocated
            with torch.device("meta"):
                _compare(build(), header)
        return build()
    except (UsageError, RuntimeError, ValueError, OverflowError, MemoryError) as error:
        raise DataError("{file}: does not fit {config}: {error}", file, run.config, error) from None


def _compare(model: nn.Module, header: dict[str, Described]) -> None:
    for name, parameter in model.named_parameters():
        if name not in header:
            raise ValueError(msg("parameter {name} is missing", name))
        if header[name].shape != tuple(parameter.shape):
            raise ValueError(
                msg("parameter {name} has the shape {shape}, not {expected}").fill(
                    name, header[name].shape, tuple(parameter.shape)
                )
            )
        if header[name].dtype not in _FLOATS:
            raise ValueError(f"parameter {name} holds no floating-point numbers")
