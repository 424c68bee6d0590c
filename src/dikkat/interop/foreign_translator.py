"""A translator of another toolkit, made ready and written as an ordinary run directory."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from torch import Size, Tensor, nn

from dikkat.config import DataConfig, DecodingConfig, ModelConfig, RunConfig, TokenizerConfig, first_complaint
from dikkat.interop.checkpoint_folder import require_finite
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.models.factory import Factory
from dikkat.models.key_table import Row, to_ours, to_theirs
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import encode_tensors
from dikkat_runtime.engine.shortlist import NAMED, OWNER, SHORTLIST, Shortlist
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.text.foreign_json import shown
from dikkat_runtime.text.tokenizer import Tokenizer

Settings = TypeVar("Settings", bound=BaseModel)

# Shapes of our weights, known before any number is read.

_LAYER = re.compile(r"(?<=\.blocks\.)\d+")


def our_shapes(model: ModelConfig, build: Callable[[Factory], nn.Module], settings: Path) -> dict[str, Size]:
    """Return the shape of each weight, from a model of two layers without numbers: all but the first are alike.

    Raises `DataError` naming the file of `settings` where no model is of these sizes.
    """
    layers = {"encoder": model.encoder_layers, "decoder": model.decoder_layers}
    short = {f"{stack}_layers": min(2, count) for stack, count in layers.items()}
    try:
        with torch.device("meta"):
            ours = build(Factory(model.model_copy(update=short)))
    except (RuntimeError, ValueError) as error:  # such as more numbers than an address can count
        raise DataError("{settings}: there is no model of these sizes ({error})", settings, shown(str(error))) from None
    shapes = {}
    for name, parameter in ours.named_parameters():
        number = _LAYER.search(name)
        last = number is not None and number.group() == "1"
        for layer in range(1, layers[name.partition(".")[0]]) if last else (0,):
            shapes[_LAYER.sub(str(layer), name) if last else name] = parameter.shape
    return shapes


_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
SOURCE, TARGET, OUTPUT, BIAS = "source_embedding.weight", "target_embedding.weight", "output_weight", "output_bias"
"""Our weights with a row for each entry of a vocabulary."""


@dataclass(frozen=True, slots=True)
class Languages:
    """Hold the codes of the languages that a translator is for; empty where its files do not say."""

    source: str = ""
    target: str = ""

    @property
    def phrase(self) -> str:
        """Return both as the first sentence of a readme tells them; nothing where one is not known."""
        return f" from `{self.source}` to `{self.target}`" if self.source and self.target else ""


def language_code(value: object) -> str:
    """Return a code such as "en" that a foreign file names, or nothing where it is none."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""


@dataclass(frozen=True, slots=True)
class ForeignTranslator:
    """Hold a translator of another toolkit, ready to be written as a run."""

    toolkit: str
    """Its format, in words for people."""
    model: ModelConfig
    weights: Mapping[str, Tensor]
    rows: tuple[Row, ...]
    """The table of names; see `theirs`."""
    orders: tuple[VocabularyOrder, ...]
    """Ids of the vocabulary, or of that of the source and that of the target."""
    tokenizers: tuple[Tokenizer, ...]
    """One, or that of the source and that of the target."""
    decoding: DecodingConfig
    languages: Languages = Languages()
    left_out: tuple[str, ...] = ()
    """Weights that this model does not need."""
    shortlist: Shortlist | None = None
    """The words that a translation may consist of, in our ids; None where these are all."""

    task = "translator"

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())

    @property
    def vocabularies(self) -> Literal["joint", "separate", "shared_ids"]:
        """Return how the vocabularies of the two sides belong together, as `data.vocabularies` says it."""
        if len(self.orders) == 2:
            return "separate"
        return "joint" if len(self.tokenizers) == 1 else "shared_ids"

    def write(self, out: Path, source: Path, command: str) -> None:
        """Write the run directory `out`. Raises `CannotCreateError` or `DiskError`."""
        data = DataConfig(
            source_language=self.languages.source, target_language=self.languages.target, vocabularies=self.vocabularies
        )
        tokenizer = TokenizerConfig(kind="unigram", vocab_size=max(301, self.model.vocab_size))
        config = RunConfig(model=self.model, tokenizer=tokenizer, data=data, decoding=self.decoding)
        sections = {"model", "tokenizer", "data", "decoding"}
        run = RunDirectory.create(out)
        with run.alone():
            self.tokenizers[0].save(run.path / "tokenizer.json")
            if len(self.tokenizers) == 2:
                self.tokenizers[1].save(run.path / TARGET_TOKENIZER)
            named = {} if self.shortlist is None else {NAMED: SHORTLIST}
            described = {"task": self.task, "imported_from": str(source), **named}
            run.write_config({**config.model_dump(include=sections), **described})
            run.save_weights(self.weights, {"imported_from": str(source)})
            if self.shortlist is not None:
                tensors = {name: torch.from_numpy(array) for name, array in self.shortlist.arrays().items()}
                notes = {"imported_from": str(source), OWNER: read_checksum(run.weights)}
                write_atomically(run.path / SHORTLIST, encode_tensors(tensors, notes))
            left_out = msg("\nLeft out: {names}.\n", ", ".join(self.left_out)) if self.left_out else ""
            origin, name = f"`{source}` ({self.toolkit})", out.resolve().name
            run.write_card(imported_card(name, self.task, self.parameters, origin, left_out, command))

    def theirs(self) -> dict[str, Tensor]:
        """Return the weights by the names and in the order of the other toolkit."""
        ours = dict(self.weights)
        for name in (SOURCE, TARGET, OUTPUT, BIAS):
            if name in ours:
                ours[name] = self.orders[0 if name == SOURCE else -1].theirs(ours[name])
        return to_theirs(self.rows, ours)


def checked_settings(kind: type[Settings], values: Mapping[str, object], path: Path) -> Settings:
    """Return the settings of a `kind`. Raises `DataError` naming the file `path` where they are none."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DataError("{name}: {fact}", path, first_complaint(error)) from None


def imported_card(name: str, kind: str, parameters: int, source: str, left_out: str, command: str) -> str:
    return (
        f"# {name}\n\nA {kind} of {parameters:,} parameters, imported from {source} and not trained here."
        f" Its data, scores and licence are those of the source.\n{left_out}\n```\n{command}\n```\n"
    )


def our_weights(
    rows: Sequence[Row], theirs: Mapping[str, Tensor], model: ModelConfig, settings: Path, weights: Path
) -> dict[str, Tensor]:
    """Return our weights from all of theirs, with the vocabulary in their order; `model` has the size of theirs.

    Raises `DataError` naming the first weight that is missing, left over, of another shape or not finite, and the file
    of `settings` that it does not fit.
    """
    if len(rows) > 2 * len(theirs) + 16:
        raise DataError("{settings}: describes more layers than {name} has weights for", settings, weights.name)
    shapes = our_shapes(model, Factory.encoder_decoder, settings)
    ours = to_ours(rows, theirs, shapes, str(weights), settings.name)
    for name, tensor in ours.items():
        if not tensor.is_meta:
            require_finite(tensor, weights, name)
    return ours


def reordered(ours: Mapping[str, Tensor], orders: Sequence[VocabularyOrder]) -> dict[str, Tensor]:
    """Return our weights with the rows of each vocabulary in our order, and a bias that keeps marks unwritten."""
    weights = dict(ours)
    for name in (SOURCE, TARGET, OUTPUT):
        if name in weights:
            weights[name] = orders[0 if name == SOURCE else -1].matrix(weights[name])
    weights[BIAS] = orders[-1].bias(weights[BIAS])
    return weights


def sized(model: ModelConfig, orders: Sequence[VocabularyOrder]) -> ModelConfig:
    """Return the settings with the sizes of our vocabularies, and a start from zero where no entry is for the start.

    Training goes on with a start from zero then, as the other toolkit computes it.
    """
    target = len(orders[1].rows) if len(orders) == 2 else None
    sizes = {"vocab_size": len(orders[0].rows), "target_vocab_size": target}
    return model.model_copy(update={**sizes, "start_from_zero": not orders[-1].begins})
