"""Turn a checkpoint of another toolkit into an ordinary run directory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dikkat.config import ClassifierConfig, DataConfig, EncoderConfig, LanguageModelConfig, ModelConfig
from dikkat.interop import scratch_gpt
from dikkat.interop.argos_package import is_argos, read_argos
from dikkat.interop.chat_template import chat_texts, template_settings
from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings, read_checkpoint, same
from dikkat.interop.ctranslate2.reading import is_ctranslate2, read_ctranslate2
from dikkat.interop.family import Family, Head, Keys, family_of, settings_of, table
from dikkat.interop.family_settings import classifier_section, fold_segments, is_regression, labels_of, transform_of
from dikkat.interop.foreign_translator import ForeignTranslator, checked_settings, imported_card, our_shapes
from dikkat.interop.gguf import SUFFIX, GgufCheckpoint, GgufFile, gguf_checkpoint, gguf_settings, gguf_tokenizer
from dikkat.interop.marian import is_marian, read_marian
from dikkat.interop.opus import is_opus, read_opus
from dikkat.interop.pairs import read_pair
from dikkat.interop.paths import require_exists, require_folder, require_other_than_programs
from dikkat.interop.sentence_transformers import backbone_folder, dense_weights, encoder_settings_of
from dikkat.models.factory import Factory
from dikkat.models.key_table import Row, to_ours
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import DataError, UsageError, msg, nearest
from dikkat_runtime.files import write_atomically
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.text.tokenizer import parse_tokenizer, tokenizer_content

LAYOUTS = ("scratch", "d2l", "nyu")
OUTPUTS = ("lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight")
"""Names of output matrices, which may be stored although they are the embeddings."""
_SEGMENTS = "embeddings.token_type_embeddings.weight"
MAX_LENGTH = 8192
"""Most tokens of a text that are read, unless fewer are known."""
_KINDS: dict[str, tuple[Any, str, Callable[[Factory, Any, int], nn.Module]]] = {
    "encoder": (EncoderConfig, "max_length", lambda factory, head, _: factory.sentence_encoder(head)),
    "classifier": (ClassifierConfig, "max_tokens", Factory.classifier),
    "regressor": (ClassifierConfig, "max_tokens", Factory.classifier),
    "tagger": (ClassifierConfig, "max_tokens", lambda factory, *head: factory.classifier(*head, per_token=True)),
    "lm": (LanguageModelConfig, "context", lambda factory, head, _: factory.language_model(head.objective)),
}
"""Settings of the section of a kind of model, the name of its longest text, and what builds it."""
_SECTIONS = {"encoder": "encoder", "lm": "language_model"}
"""Of the other kinds it is that of a classifier."""
_MAX_NAMED = 12


@dataclass(frozen=True, slots=True)
class Imported:
    """Hold the content of a checkpoint folder, ready to be written as a run."""

    task: str
    model: ModelConfig
    head_config: EncoderConfig | ClassifierConfig | LanguageModelConfig
    weights: Mapping[str, Tensor]
    rows: tuple[Row, ...]
    """The table: `to_theirs(rows, weights)` is the checkpoint again."""
    tokenizer: bytes
    """Content of tokenizer.json."""
    left_out: tuple[str, ...]
    """Weights of heads of other tasks."""
    labels: tuple[str, ...] = ()
    """Classes of a classifier or a tagger, or names of the numbers of a regression."""

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())


_BY_FILES: tuple[tuple[Callable[[Path], bool], Callable[[Path], ForeignTranslator]], ...] = (
    (is_argos, read_argos),
    (is_opus, read_opus),
    (is_ctranslate2, read_ctranslate2),
    (is_marian, read_marian),
)
"""Formats that are known by their files, and how each is read."""


def read_foreign(folder: Path, layout: str | None = None, task: str | None = None) -> Imported | ForeignTranslator:
    """Read the model in a folder of Hugging Face of any family, with config.json and model.safetensors.

    A `task`, "encoder", "classifier", "tagger" or "lm", says what an encoder is read for. Or it is the
    translator in a folder of CTranslate2, a package of Argos, a zip of OPUS-MT, or a model file of Marian.
    With the `layout` "scratch" it is the language model of that book, and config.json its dictionary of settings.

    Raises `MissingInputError` or `DataError` naming the file and what is wrong with it, such as the first weight that
    is missing or left over.
    """
    if layout is None:
        for belongs, read in _BY_FILES:
            if belongs(folder):
                return read(folder)
        if folder.suffix == SUFFIX:
            require_exists(folder)
            theirs = gguf_settings(file := GgufFile(folder))
            model = read_family(folder, theirs, family_of(theirs), task, checkpoint=gguf_checkpoint(file, theirs))
            return _with_checked_tokenizer(replace(model, tokenizer=gguf_tokenizer(file)), folder)
    require_folder(folder)
    backbone = backbone_folder(folder)
    require_other_than_programs(backbone)
    theirs = ForeignSettings.read(backbone / "config.json")
    if "format_version" in theirs.values:
        raise UsageError("{folder}: is a run already; use it as it is, or train it on with --from", folder)
    if layout is not None:
        check_layout(layout)
        imported = read_family(folder, theirs, scratch_gpt.SCRATCH)
    else:
        family = family_of(theirs)
        if family.task == "translator":
            return read_pair(folder, theirs, family)
        imported = read_family(folder, theirs, family, task)
    return _with_checked_tokenizer(imported, backbone / "tokenizer.json")


def _with_checked_tokenizer(imported: Imported, path: Path) -> Imported:
    """Return the model. Raises `DataError` for a tokenizer, read at `path`, with more entries than the model."""
    size = ForeignTokenizer(parse_tokenizer(imported.tokenizer, path)[1]).vocab_size
    if size > imported.model.vocab_size:
        raise DataError("{tokenizer}: has {size} entries, but the model has only {vocab_size}").fill(
            path, size, imported.model.vocab_size
        )
    return imported


def write_run(imported: Imported | ForeignTranslator, out: Path, source: Path, command: str) -> None:
    """Write the run directory `out`. Raises `CannotCreateError` or `DiskError`."""
    if isinstance(imported, ForeignTranslator):
        imported.write(out, source, command)
        return
    run = RunDirectory.create(out)
    settings = {
        "model": imported.model.model_dump(),
        _SECTIONS.get(imported.task, "classifier"): imported.head_config.model_dump(),
        **({"labels": list(imported.labels)} if imported.labels else {}),
        "data": DataConfig().model_dump(),
        "task": imported.task,
        "imported_from": str(source),
    }
    with run.alone():
        write_atomically(run.tokenizer, imported.tokenizer)
        run.write_config(settings)
        run.save_weights(imported.weights, {"imported_from": str(source)})
        run.write_card(_card(imported, out.resolve().name, source, command))


def read_family(
    folder: Path, theirs: ForeignSettings, family: Family, task: str | None = None, *,
    checkpoint: Checkpoint | None = None,
) -> Imported:  # fmt: skip
    """Read the model in a folder, whose backbone has the settings `theirs`, by the tables of its family.

    The `checkpoint` is that of another file, where the folder holds none. A `task` says what an encoder is read for.
    Raises `UsageError` for one that the family has no head of, and `MissingInputError` or
    `DataError` naming the first weight or setting that does not fit.
    """
    kind = _kind(theirs, family, task)
    head = _head(theirs, family, kind)
    heads = family.heads if head is None else _others(family, head.keys)
    if checkpoint is None:
        checkpoint = read_checkpoint(theirs.path.parent, family.prefixes, heads, family.constants)
    for name in (family.layers, "n_layer", "num_hidden_layers"):  # before the settings, which tell of every layer
        if isinstance(layers := theirs.values.get(name), int | float) and layers > (count := len(checkpoint.weights)):
            raise DataError("{path}: {name} is {layers:,}, but {file} has only {count:,} weights").fill(
                theirs.path, name, layers, checkpoint.path.name, count
            )
    values = settings_of(family, theirs, checkpoint.weights)
    keys: Keys = {
        **family.keys(checked_settings(ModelConfig, values, theirs.path), theirs),
        **(head.keys if head else {}),
    }
    labels: tuple[str, ...] = ()
    if head is None:
        section = _encoder_section(folder, theirs, checkpoint) if family.task == "encoder" else {}
    elif kind != "lm":
        labels, section = labels_of(theirs), classifier_section(theirs, head, kind)
    else:
        values |= {"decoder_layers": values["encoder_layers"], "output_bias": True}
        values["output_transform"] = transform_of(theirs, head)
        # the stack of a language model is called decoder
        stack = {name: at for name, at in keys.items() if name.startswith("encoder.")}
        keys = {**keys, **{f"decoder{name.removeprefix('encoder')}": at for name, at in stack.items()}}
        section = {"objective": "masked", "chat": {}}
    if head is not None:
        keys = fold_segments(keys, values)
    model = checked_settings(ModelConfig, values, theirs.path)
    return _by_tables(folder, theirs, checkpoint, keys, model, kind, section, labels)


def _by_tables(
    folder: Path,
    theirs: ForeignSettings,
    checkpoint: Checkpoint,
    keys: Keys,
    model: ModelConfig,
    kind: str,
    section: Mapping[str, object],
    labels: tuple[str, ...],
) -> Imported:
    config_kind, length, build = _KINDS[kind]
    chat = theirs.values if isinstance(checkpoint, GgufCheckpoint) else template_settings(theirs.path.parent)
    own = {"chat": chat_texts(chat)} if kind == "lm" else {}
    values = {length: min(model.max_positions, MAX_LENGTH), **own, **section}
    head_config = checked_settings(config_kind, values, theirs.path)
    shapes = our_shapes(model, lambda factory: build(factory, head_config, len(labels)), theirs.path)
    dense = dense_weights(folder, shapes) if kind == "encoder" else {}
    shapes = {name: shape for name, shape in shapes.items() if name not in dense}
    _check_copy(keys, checkpoint, theirs)
    rows = table(keys, shapes, model)
    left_out = _leave_out_pooler(checkpoint, rows) if kind != "encoder" else ()
    # by names, shapes and types first: numbers are read only where the whole file fits
    to_ours(rows, checkpoint.weights, shapes, str(checkpoint.path))
    loaded = checkpoint.loaded()
    _check_copy(keys, loaded, theirs)
    weights = to_ours(rows, loaded.weights, shapes, str(checkpoint.path)) | dense
    path = theirs.path.parent / "tokenizer.json"
    tokenizer = b"" if isinstance(checkpoint, GgufCheckpoint) else tokenizer_content(path)
    left = (*checkpoint.left_out, *left_out)
    return Imported(kind, model, head_config, weights, tuple(rows), tokenizer, left, labels)


def _kind(theirs: ForeignSettings, family: Family, task: str | None) -> str:
    """Return the kind of model to read, by the task or else by what the folder says that the model is."""
    if family.task != "encoder":
        if task not in (None, family.task):
            raise UsageError(
                "{path}: this family holds a model of the kind {kind}, not {task}", theirs.path, family.task, task
            )
        return family.task
    named = str(theirs.values.get("architectures"))
    if task is None and "ForTokenClassification" in named:
        return "tagger"
    is_classifier = "ForSequenceClassification" in named and family.classifier is not None
    task = task or ("classifier" if is_classifier else "encoder")
    return "regressor" if task == "classifier" and is_regression(theirs) else task


def _head(theirs: ForeignSettings, family: Family, kind: str) -> Head | None:
    """Return the head of an encoder to read. Raises `UsageError` where the family has none of this kind."""
    if kind == "encoder" or family.task != "encoder":
        return None
    if (head := {"tagger": family.tagger, "lm": family.masked}.get(kind, family.classifier)) is None:
        raise UsageError(
            "{path}: no head of the kind {task} is known for this family; leave out --task", theirs.path, kind
        )
    return head


def _others(family: Family, keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return the beginnings of the names of all heads but one."""
    own = tuple(keys.values())
    return tuple(name for name in family.heads if not any(source.startswith(name.rstrip(".")) for source in own))


def _encoder_section(folder: Path, theirs: ForeignSettings, checkpoint: Checkpoint) -> dict[str, object]:
    pooler = any(name.startswith("pooler.") for name in checkpoint.weights)
    segments = theirs.number("type_vocab_size", 2) if _SEGMENTS in checkpoint.weights else 1
    return {"segments": segments, "pooler": pooler, **encoder_settings_of(folder)}


def _leave_out_pooler(checkpoint: Checkpoint, rows: Sequence[Row]) -> tuple[str, ...]:
    """Leave out the layer on the first position, where the head does not read it; return its names."""
    wanted = {name for row in rows for name in row.theirs}
    names = [name for name in checkpoint.weights if name.startswith("pooler.") and name not in wanted]
    for name in names:
        del checkpoint.weights[name], checkpoint.stored[name]
    return tuple(names)


def _check_copy(keys: Keys, checkpoint: Checkpoint, theirs: ForeignSettings) -> None:
    """Leave out an output matrix that is stored a second time. Raises `DataError` where it differs."""
    for name in OUTPUTS:
        tied = str(keys.get("output_weight", name))
        copy = checkpoint.weights.get(name)
        if copy is not None and tied != name:
            if tied not in checkpoint.weights or not same(copy, checkpoint.weights[tied]):
                raise DataError(
                    "{path}: {name} is to be tied to {tied}, but differs from it; set tie_word_embeddings to false"
                    " in {file} to keep both"
                ).fill(checkpoint.path, name, tied, theirs.path.name)
            del checkpoint.weights[name]


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


def _card(imported: Imported, name: str, source: Path, command: str) -> str:
    names = {"encoder": "sentence encoder", "lm": "language model", "regressor": "regression"}
    kind = msg(names.get(imported.task, imported.task))
    heads = ", ".join(imported.left_out[:_MAX_NAMED]) + (", …" if len(imported.left_out) > _MAX_NAMED else "")
    left_out = msg("\nLeft out, since they are heads of other tasks: {heads}.\n", heads) if heads else ""
    return imported_card(name, kind, imported.parameters, f"`{source}`", left_out, command)
