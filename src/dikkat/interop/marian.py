"""Translators of Marian and of Firefox (Bergamot): a `.npz` or `.bin` file, its vocabularies, and a `.yml` beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from dikkat.config import DecodingConfig
from dikkat.interop import marian_names
from dikkat.interop.foreign_translator import (
    ForeignTranslator,
    Languages,
    our_weights,
    reordered,
    sized,
    translator_config,
)
from dikkat.interop.marian_binary import read_binary
from dikkat.interop.marian_npz import read_npz
from dikkat.interop.marian_options import Option, config_file, model_settings, read_options
from dikkat.interop.piece_vocabulary import VocabularyOrder, piece_tokenizer
from dikkat.interop.sentencepiece_file import PieceKind, SentencePieceModel, read_sentencepiece
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.text.foreign_json import read_regular, shown

SUFFIXES = (".npz", ".bin")
OPTIONS = "special:model.yml"
_LARGEST_OPTIONS = 1 << 20
_VECTOR = re.compile(r"_(?:b[1-9a-z]|(?:bias|scale)(?:_pre)?|out_b)$")
_ACTIVATION_SCALE = "_QuantMultA"
"""Ends the names of the scales that activations are rounded by in Bergamot's engine; ours measures its own."""
_PAIR = re.compile(r"\.([a-z]{2})([a-z]{2})\.")


def is_marian(path: Path) -> bool:
    """Return whether a path is a model file of Marian, or a folder whose `.yml` names one."""
    if path.is_dir():
        return config_file(path) is not None and any(path.glob(f"*{suffix}") for suffix in SUFFIXES)
    return path.suffix in SUFFIXES


def read_marian(path: Path) -> ForeignTranslator:
    """Read the translator in a file, or in a folder with a `.yml` that names it and its vocabularies.

    Raises `MissingInputError` or `DataError` naming the file and what is wrong with it.
    """
    folder = path if path.is_dir() else path.parent
    config = config_file(folder)
    if config is None:
        raise MissingInputError(
            f"{folder}: there is no decoder.yml, config.yml or other .yml alone to name vocabularies"
        )
    options = read_options(read_regular(config, _LARGEST_OPTIONS), str(config))
    file = path if path.is_file() else _named(folder, options, "models", config, 1)[0]
    models = [read_sentencepiece(each) for each in _named(folder, options, "vocabs", config, 2)]
    if models[0].pieces == models[1].pieces:
        models.pop()
    stored, own = read_npz(file) if file.suffix == ".npz" else read_binary(file)
    sizes = [len(each.pieces) for each in models]
    model = translator_config(model_settings(read_options(own, str(file)), str(file), sizes), file)
    table = tuple(marian_names.rows(model))
    theirs = {name: _shaped(name, tensor) for name, tensor in stored.items() if not name.endswith(_ACTIVATION_SCALE)}
    if model.target_vocab_size is None and len(models) == 2:
        raise DataError(f"{config}: names two vocabularies, but {file.name} has one matrix for both")
    ours = our_weights(table, theirs, model, file, file)
    orders = tuple(_order(each) for each in (models if model.target_vocab_size is not None else models[:1]))
    entries = [
        order.entries([piece.text for piece in each.pieces]) for order, each in zip(orders, models, strict=False)
    ]
    if len(orders) == 2 and len(models) == 1:
        raise DataError(f"{config}: names one vocabulary, but {file.name} has two")
    return ForeignTranslator(
        "Firefox (Bergamot)" if file.suffix == ".bin" else "Marian",
        sized(model, orders),
        reordered(ours, orders),
        table,
        orders,
        tuple(piece_tokenizer(each, own_entries) for each, own_entries in zip(models, entries, strict=True)),
        DecodingConfig(length_penalty=_normalization(options, config)),
        _languages(file),
        _left_out(stored, options),
    )


def _named(folder: Path, options: Mapping[str, Option], name: str, config: Path, count: int) -> list[Path]:
    """The files that an option lists. Raises `DataError` where they are not so many files within the folder."""
    listed = options.get(name)
    names = [listed] if isinstance(listed, str) else listed or []
    if len(names) != count:
        raise DataError(f"{config}: {name} must be {count} file{'s' if count > 1 else ''}, not {len(names)}")
    for each in names:
        if Path(each).is_absolute() or ".." in Path(each).parts:
            raise DataError(f"{config}: {name} names a file outside the folder: {shown(each)}")
        if name == "vocabs" and Path(each).suffix != ".spm":
            raise DataError(f"{config}: the vocabulary {shown(each)} is no SentencePiece model (.spm)")
    return [folder / each for each in names]


def _shaped(name: str, tensor: Tensor) -> Tensor:
    """(1, D) -> (D,) for what is a vector of ours."""
    return tensor.flatten() if _VECTOR.search(name) and tensor.dim() == 2 and tensor.shape[0] == 1 else tensor


def _order(model: SentencePieceModel) -> VocabularyOrder:
    places = {piece.text: number for number, piece in enumerate(model.pieces)}
    unknown = next((number for number, piece in enumerate(model.pieces) if piece.kind == PieceKind.UNKNOWN), None)
    if unknown is None or "</s>" not in places:
        raise DataError(f"{model.path}: has no entry for the end, </s>, or none for the unknown")
    return VocabularyOrder.of(len(model.pieces), end=places["</s>"], unknown=unknown)


def _normalization(options: Mapping[str, Option], config: Path) -> float:
    value = options.get("normalize", "0")
    try:
        alpha = float(value) if isinstance(value, str) else -1.0
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha <= 5:
        raise DataError(f"{config}: normalize must be a number from 0 to 5, not {shown(repr(value))}")
    return alpha


def _languages(file: Path) -> Languages:
    found = _PAIR.search(file.name)
    return Languages(found[1], found[2]) if found else Languages()


def _left_out(stored: Mapping[str, Tensor], options: Mapping[str, Option]) -> tuple[str, ...]:
    scales = sum(name.endswith(_ACTIVATION_SCALE) for name in stored)
    named = [f"{scales} scales of activations"] if scales else []
    shortlist = options.get("shortlist")
    if isinstance(shortlist, list) and shortlist:
        named.append(f"the shortlist {shortlist[0]}, so that every word may be written")
    return tuple(named)
