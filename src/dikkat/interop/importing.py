"""A Hugging Face checkpoint folder in, an ordinary run directory out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from dikkat.config import EncoderConfig, LanguageModelConfig, ModelConfig, first_complaint
from dikkat.disk import write_atomically
from dikkat.errors import DataError, MissingInputError, UsageError
from dikkat.interop import bert, gpt2
from dikkat.interop.checkpoint_folder import Checkpoint, read_checkpoint
from dikkat.interop.foreign_settings import ForeignSettings
from dikkat.interop.key_table import Row, to_ours
from dikkat.interop.sentence_transformers import around_the_trunk, trunk_folder
from dikkat.models.factory import Factory, check_dimensions
from dikkat.run_directory import RunDirectory
from dikkat.text.foreign_tokenizer import ForeignTokenizer

FAMILIES = ("bert", "gpt2")


@dataclass(frozen=True, slots=True)
class Imported:
    """What was found in a checkpoint folder, ready to be written as a run."""

    task: str
    model: ModelConfig
    around: EncoderConfig | LanguageModelConfig
    weights: Mapping[str, Tensor]
    rows: tuple[Row, ...]
    """The table: `to_theirs(rows, weights)` is the checkpoint again."""
    tokenizer: Path
    left_out: tuple[str, ...]
    """Weights of heads, which have no place in a trunk."""

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())


def read_foreign(folder: Path) -> Imported:
    """The model in a folder of the BERT or GPT-2 family: config.json, model.safetensors and tokenizer.json.

    Raises `MissingInputError` or `DataError` naming the file and what is wrong with it, such as the first weight that
    is missing or left over.
    """
    if not folder.is_dir():
        raise MissingInputError(f"{folder}: there is no such folder; name one that holds config.json")
    trunk = trunk_folder(folder)
    theirs = ForeignSettings.read(trunk / "config.json")
    found = _bert(folder, theirs) if theirs.family(FAMILIES) == "bert" else _gpt2(theirs)
    size = ForeignTokenizer.load(found.tokenizer).vocab_size
    if size > found.model.vocab_size:
        raise DataError(f"{found.tokenizer}: has {size} entries, but the model only {found.model.vocab_size}")
    return found


def write_run(found: Imported, out: Path, source: Path, command: str) -> None:
    """Make the run directory `out`. Raises `CannotCreateError` or `DiskError`."""
    run = RunDirectory.create(out)
    section = "encoder" if isinstance(found.around, EncoderConfig) else "language_model"
    settings = {
        "model": found.model.model_dump(),
        section: found.around.model_dump(),
        "task": found.task,
        "imported_from": str(source),
    }
    with run.alone():
        write_atomically(run.tokenizer, found.tokenizer.read_bytes())
        run.write_config(settings)
        run.save_weights(found.weights, {"imported_from": str(source)})
        run.write_card(_card(found, out.name, source, command))


def _bert(folder: Path, theirs: ForeignSettings) -> Imported:
    trunk = theirs.path.parent
    checkpoint = read_checkpoint(trunk, bert.PREFIX, bert.HEADS, bert.CONSTANTS)
    model = _checked(ModelConfig, bert.model_settings(theirs), theirs.path)
    around = {
        "max_length": model.max_positions,
        **bert.encoder_settings(theirs, list(checkpoint.weights)),
        **around_the_trunk(folder),
    }
    encoder = _checked(EncoderConfig, around, theirs.path)
    _check_size(model, checkpoint, theirs.path)
    with torch.device("meta"):  # only its shapes are asked for
        ours = Factory(model).sentence_encoder(encoder)
    return _imported("encoder", model, encoder, ours, bert.rows(model, encoder), checkpoint)


def _gpt2(theirs: ForeignSettings) -> Imported:
    checkpoint = read_checkpoint(theirs.path.parent, gpt2.PREFIX, gpt2.HEADS, gpt2.CONSTANTS)
    model = _checked(ModelConfig, gpt2.model_settings(theirs), theirs.path)
    _check_size(model, checkpoint, theirs.path)
    if model.tie_embeddings:
        gpt2.without_copy(checkpoint)
    around = _checked(LanguageModelConfig, {"context": model.max_positions}, theirs.path)
    with torch.device("meta"):
        ours = Factory(model).language_model(around.objective)
    return _imported("lm", model, around, ours, gpt2.rows(model), checkpoint)


def _imported(
    task: str,
    model: ModelConfig,
    around: EncoderConfig | LanguageModelConfig,
    ours: nn.Module,
    rows: list[Row],
    checkpoint: Checkpoint,
) -> Imported:
    shapes = {name: parameter.shape for name, parameter in ours.named_parameters()}
    weights = to_ours(rows, checkpoint.weights, shapes, str(checkpoint.path))
    tokenizer = checkpoint.path.parent / "tokenizer.json"
    return Imported(task, model, around, weights, tuple(rows), tokenizer, checkpoint.left_out)


def _check_size(model: ModelConfig, checkpoint: Checkpoint, path: Path) -> None:
    """Even a model without memory takes time for each of its layers."""
    try:
        check_dimensions(model, most_layers=len(checkpoint.weights))
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None


def _checked(kind: Any, values: Mapping[str, object], path: Path) -> Any:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{path}: {first_complaint(error)}") from None


def _card(found: Imported, name: str, source: Path, command: str) -> str:
    kind = "sentence encoder" if found.task == "encoder" else "language model"
    heads = ", ".join(found.left_out)
    left_out = f"\nLeft out, since they are heads of other tasks: {heads}.\n" if heads else ""
    return (
        f"# {name}\n\nA {kind} of {found.parameters:,} parameters, imported from `{source}` and not trained here."
        f" Its data, scores and licence are those of the source.\n{left_out}\n```\n{command}\n```\n"
    )
