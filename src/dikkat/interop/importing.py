"""Turn a checkpoint of another toolkit into an ordinary run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Size, Tensor

from dikkat.config import EncoderConfig, LanguageModelConfig, ModelConfig, first_complaint
from dikkat.interop import bert, gpt2, scratch_gpt
from dikkat.interop.argos_package import is_argos, read_argos
from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings, read_checkpoint
from dikkat.interop.ctranslate2.reading import is_ctranslate2, read_ctranslate2
from dikkat.interop.foreign_translator import ForeignTranslator, our_shapes
from dikkat.interop.huggingface_marian import read_huggingface_marian
from dikkat.interop.marian import is_marian, read_marian
from dikkat.interop.opus import is_opus, read_opus
from dikkat.interop.paths import require_folder, require_other_than_programs
from dikkat.interop.sentence_transformers import backbone_folder, encoder_settings_of
from dikkat.models.key_table import Row, to_ours
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import DataError, UsageError, msg, nearest
from dikkat_runtime.files import write_atomically
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer

FAMILIES = ("bert", "gpt2", "marian")
LAYOUTS = ("scratch", "d2l", "nyu")
_MAX_NAMED = 12


@dataclass(frozen=True, slots=True)
class Imported:
    """Hold the content of a checkpoint folder, ready to be written as a run."""

    task: str
    model: ModelConfig
    head_config: EncoderConfig | LanguageModelConfig
    weights: Mapping[str, Tensor]
    rows: tuple[Row, ...]
    """The table: `to_theirs(rows, weights)` is the checkpoint again."""
    tokenizer: Path
    left_out: tuple[str, ...]
    """Weights of heads, which are not part of a backbone."""

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return sum(tensor.numel() for tensor in self.weights.values())


_BY_FILES: tuple[tuple[Callable[[Path], bool], Callable[[Path], ForeignTranslator]], ...] = (
    (is_argos, read_argos),
    (is_opus, read_opus),
    (is_ctranslate2, read_ctranslate2),
    (is_marian, read_marian),
)
"""Formats that are known by their files, and how each is read."""


def read_foreign(folder: Path, layout: str | None = None) -> Imported | ForeignTranslator:
    """Read the model in a folder of the BERT, GPT-2 or Marian family, with config.json and model.safetensors.

    Or the translator in a folder of CTranslate2, a package of Argos, a zip of OPUS-MT, or a model file of Marian.
    With the `layout` "scratch" it is the language model of that book, and config.json its dictionary of settings.

    Raises `MissingInputError` or `DataError` naming the file and what is wrong with it, such as the first weight that
    is missing or left over.
    """
    if layout is None:
        for belongs, read in _BY_FILES:
            if belongs(folder):
                return read(folder)
    require_folder(folder)
    backbone = backbone_folder(folder)
    require_other_than_programs(backbone)
    theirs = ForeignSettings.read(backbone / "config.json")
    if "format_version" in theirs.values:
        raise UsageError("{folder}: is a run already; use it as it is, or train it on with --from", folder)
    if layout is not None:
        check_layout(layout)
        imported = _scratch(theirs)
    elif (family := theirs.family(FAMILIES)) == "marian":
        return read_huggingface_marian(folder, theirs)
    else:
        imported = _bert(folder, theirs) if family == "bert" else _gpt2(theirs)
    size = ForeignTokenizer.load(imported.tokenizer).vocab_size
    if size > imported.model.vocab_size:
        raise DataError("{tokenizer}: has {size} entries, but the model has only {vocab_size}").fill(
            imported.tokenizer, size, imported.model.vocab_size
        )
    return imported


def write_run(imported: Imported | ForeignTranslator, out: Path, source: Path, command: str) -> None:
    """Write the run directory `out`. Raises `CannotCreateError` or `DiskError`."""
    if isinstance(imported, ForeignTranslator):
        imported.write(out, source, command)
        return
    run = RunDirectory.create(out)
    section = "encoder" if isinstance(imported.head_config, EncoderConfig) else "language_model"
    settings = {
        "model": imported.model.model_dump(),
        section: imported.head_config.model_dump(),
        "task": imported.task,
        "imported_from": str(source),
    }
    with run.alone():
        write_atomically(run.tokenizer, imported.tokenizer.read_bytes())
        run.write_config(settings)
        run.save_weights(imported.weights, {"imported_from": str(source)})
        run.write_card(_card(imported, out.resolve().name, source, command))


def _bert(folder: Path, theirs: ForeignSettings) -> Imported:
    backbone = theirs.path.parent
    checkpoint = read_checkpoint(backbone, bert.PREFIX, bert.HEADS, bert.CONSTANTS)
    model = _checked(ModelConfig, bert.model_settings(theirs), theirs.path)
    _check_layers(model.encoder_layers, "num_hidden_layers", theirs, checkpoint)
    head_config = {
        "max_length": model.max_positions,
        **bert.encoder_settings(theirs, list(checkpoint.weights)),
        **encoder_settings_of(folder),
    }
    encoder = _checked(EncoderConfig, head_config, theirs.path)
    rows = bert.rows(model, encoder)
    shapes = our_shapes(rows, model, lambda factory: factory.sentence_encoder(encoder), theirs.path)
    return _imported("encoder", model, encoder, shapes, rows, checkpoint)


def _gpt2(theirs: ForeignSettings) -> Imported:
    checkpoint = read_checkpoint(theirs.path.parent, gpt2.PREFIX, gpt2.HEADS, gpt2.CONSTANTS)
    model = _checked(ModelConfig, gpt2.model_settings(theirs), theirs.path)
    _check_layers(model.decoder_layers, "n_layer", theirs, checkpoint)
    head_config = _checked(LanguageModelConfig, {"context": model.max_positions}, theirs.path)
    rows = gpt2.rows(model)
    shapes = our_shapes(rows, model, lambda factory: factory.language_model(head_config.objective), theirs.path)
    return _imported("lm", model, head_config, shapes, rows, checkpoint)


def _scratch(theirs: ForeignSettings) -> Imported:
    checkpoint = read_checkpoint(theirs.path.parent, "", (), scratch_gpt.CONSTANTS)
    model = _checked(ModelConfig, scratch_gpt.model_settings(theirs), theirs.path)
    _check_layers(model.decoder_layers, "n_layers", theirs, checkpoint)
    head_config = _checked(LanguageModelConfig, {"context": model.max_positions}, theirs.path)
    rows = scratch_gpt.rows(model)
    shapes = our_shapes(rows, model, lambda factory: factory.language_model(head_config.objective), theirs.path)
    return _imported("lm", model, head_config, shapes, rows, checkpoint)


def check_layout(layout: str) -> None:
    """Raise `UsageError` for a layout whose folders do not become runs."""
    if layout in ("d2l", "nyu"):
        raise UsageError(
            "--layout {layout}: its word lists do not make a tokenizer of a run; read its weights in Python with "
            'dikkat.lessons.classroom.load_weights(model, path, "{layout}")'
        ).fill(layout)
    if layout != "scratch":
        raise UsageError('there is no layout "{layout}"{nearest} known: {layouts}').fill(
            layout, nearest(layout, LAYOUTS), ", ".join(LAYOUTS)
        )


def _check_layers(layers: int, name: str, theirs: ForeignSettings, checkpoint: Checkpoint) -> None:
    """Before a table of so many layers is made."""
    if layers > len(checkpoint.weights):
        count = len(checkpoint.weights)
        raise DataError("{path}: {name} is {layers:,}, but {file} has only {count:,} weights").fill(
            theirs.path, name, layers, checkpoint.path.name, count
        )


def _imported(
    task: str,
    model: ModelConfig,
    head_config: EncoderConfig | LanguageModelConfig,
    shapes: Mapping[str, Size],
    rows: list[Row],
    checkpoint: Checkpoint,
) -> Imported:
    # by names, shapes and types first: numbers are read only where the whole file fits
    _ours(model, shapes, rows, checkpoint)
    weights = _ours(model, shapes, rows, checkpoint.loaded())
    tokenizer = checkpoint.path.parent / "tokenizer.json"
    return Imported(task, model, head_config, weights, tuple(rows), tokenizer, checkpoint.left_out)


def _ours(model: ModelConfig, shapes: Mapping[str, Size], rows: list[Row], checkpoint: Checkpoint) -> dict[str, Tensor]:
    if gpt2.OUTPUT in checkpoint.weights and model.tie_embeddings:
        gpt2.without_copy(checkpoint)
    return to_ours(rows, checkpoint.weights, shapes, str(checkpoint.path))


def _checked(kind: Any, values: Mapping[str, object], path: Path) -> Any:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DataError("{name}: {fact}", path, first_complaint(error)) from None


def _card(imported: Imported, name: str, source: Path, command: str) -> str:
    kind = msg("sentence encoder" if imported.task == "encoder" else "language model")
    heads = ", ".join(imported.left_out[:_MAX_NAMED]) + (", …" if len(imported.left_out) > _MAX_NAMED else "")
    left_out = msg("\nLeft out, since they are heads of other tasks: {heads}.\n", heads) if heads else ""
    return (
        f"# {name}\n\nA {kind} of {imported.parameters:,} parameters, imported from `{source}` and not trained here."
        f" Its data, scores and licence are those of the source.\n{left_out}\n```\n{command}\n```\n"
    )
