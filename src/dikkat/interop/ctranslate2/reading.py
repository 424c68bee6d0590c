"""Read a translator from a folder of CTranslate2: model.bin, config.json, vocabularies, and a tokenizer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.config import DecodingConfig, ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings, require_finite
from dikkat.interop.ctranslate2.layout import ENCODER, POSITIONS, copies, halved, rows
from dikkat.interop.ctranslate2.model_file import (
    SCALE,
    VERSION,
    Array,
    ModelFile,
    begins_as_model,
    read_model_file,
    restored,
)
from dikkat.interop.ctranslate2.settings import adds_source_eos, described
from dikkat.interop.ctranslate2.vocabularies import OWN, VMAP, check_checksums, read_entries, read_vocabularies
from dikkat.interop.foreign_translator import (
    BIAS,
    OUTPUT,
    ForeignTranslator,
    Languages,
    checked_settings,
    language_code,
    our_weights,
    reordered,
    sized,
)
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.special_tokens import EOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.foreign_json import read_regular, shown
from dikkat_runtime.text.pieces import hidden

# Models of older converters of CTranslate2: their variables by the names of today, and settings without config.json.
#
# CTranslate2 itself reads them still (`TransformerModel::initialize` and `SequenceToSequenceModel::initialize`).

_OF_EACH_STACK = 5
"""The revision since which each stack has settings of its own."""
_SHARED = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")
_OF_ONE = {"embeddings_merge": ("encoder",), "alignment_layer": ("decoder",), "alignment_heads": ("decoder",)}
"""Settings that only one of the stacks has."""
_USUAL: dict[str, Array] = {"num_heads": np.int16(8), "pre_norm": np.int8(1), "activation": np.int8(0)}  # type: ignore[dict-item]
"""What a model has that does not say it."""
_UNUSED = ("with_relative_position", "layernorm_embedding")
"""Settings that repeat what the weights say; elsewhere than at 0 they stay, and are refused by name."""
_INT16_SCALE = np.float32(1000)
"""That of matrices in int16 without one."""
_SCALED = "embeddings/multiply_by_sqrt_depth"
_TOKENS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_FLAGS = {
    "with_source_bos": False,
    "with_source_eos": False,
    "with_target_bos": True,
    "user_decoder_start_tokens": False,
}
"""Settings that stand in config.json today, and what a model has that does not say them."""


def with_settings(model: ModelFile, config: ForeignSettings | None, path: Path) -> tuple[ModelFile, ForeignSettings]:
    """Return the model of a file `path` without the settings that stand in config.json since version 6, and those.

    `config` is what config.json says, if there is one. Raises `DataError` for a setting that is not what it should be.
    """
    if model.version >= VERSION:
        return model, ForeignSettings.read(path.with_name("config.json")) if config is None else config
    variables = dict(model.variables)
    tokens = {name: _token(variables.pop(name, None), usual, name, path) for name, usual in _TOKENS.items()}
    flags = {name: bool(_scalar(variables.pop(name, usual), name, path)) for name, usual in _FLAGS.items()}
    start: str | None = tokens["bos_token" if flags["with_target_bos"] else "eos_token"]
    if flags["user_decoder_start_tokens"]:
        start = None
    values: dict[str, Any] = {
        **({} if config is None else config.values),
        **tokens,
        "decoder_start_token": start,
        "add_source_bos": flags["with_source_bos"],
        "add_source_eos": flags["with_source_eos"],
    }
    return replace(model, variables=variables), ForeignSettings(path, values)


def with_names_of_today(model: ModelFile) -> ModelFile:
    """Return a model of any revision that is read with its variables by the names that revision 7 gives them."""
    variables, aliases = dict(model.variables), dict(model.aliases)
    if model.revision < _OF_EACH_STACK:
        for name in _SHARED:
            value = variables.pop(name, _USUAL.get(name))
            stacks = () if value is None else _OF_ONE.get(name, ("encoder", "decoder"))
            variables |= {f"{stack}/{name}": np.asarray(value) for stack in stacks}
        for name in _UNUSED:
            if name in variables and not variables[name].any():
                del variables[name]
    for stack in ("encoder", "decoder"):
        scaled = variables.pop(f"{stack}/{_SCALED}", None)
        if scaled is not None:
            variables.setdefault(f"{stack}/scale_embeddings", scaled)
        for name, value in _USUAL.items():
            variables.setdefault(f"{stack}/{name}", np.asarray(value))
    for end in ("", SCALE):
        _rename(variables, aliases, ENCODER.replace("_0", "") + end, ENCODER + end)
    for name, array in list(variables.items()):
        if array.dtype == np.int16 and array.ndim == 2:
            variables.setdefault(name + SCALE, np.asarray(_INT16_SCALE))
    return replace(model, variables=variables, aliases=aliases)


def _rename(variables: dict[str, Array], aliases: dict[str, str], old: str, new: str) -> None:
    """Give a variable another name, whether it is one, an alias of another one, or another one's alias is of it."""
    if new in variables or new in aliases:
        return
    if old in variables:
        variables[new] = variables.pop(old)
    if old in aliases:
        aliases[new] = aliases.pop(old)
    for alias, name in aliases.items():
        if name == old:
            aliases[alias] = new


def _scalar(value: Array | bool, name: str, path: Path) -> Any:
    if isinstance(value, bool):
        return value
    if value.ndim:
        raise DataError("{path}: the setting {name} is a list", path, name)
    return value.item()


def _token(value: Array | None, usual: str, name: str, path: Path) -> str:
    if value is None:
        return usual
    try:
        return value.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("{path}: the setting {name} is not text in UTF-8", path, name) from None


_MAX_SIZE = 1 << 30
SEVERAL_PIECES = msg("vmap.txt, which has words for several pieces in a row, so that every word may be written")
"""What is said of a map that a shortlist, which has words for single pieces, cannot hold."""


def read_vmap(
    path: Path,
    orders: Sequence[VocabularyOrder],
    lists: Sequence[Sequence[str]],
    unlisted: Sequence[str],
    *,
    looks_up_end: bool,
) -> Shortlist | None:
    """Return the words that `use_vmap=True` chooses among, in our ids; None where the map has n-grams of the source.

    `orders` and `lists`, the entries by their own ids, are those of source and target, or one of both; `unlisted` are
    the pieces of the source that its list lacks, which have the last ids. As CTranslate2 reads it
    (src/vocabulary_map.cc): of two lines of a piece the later counts, the unknown and the end may always be written, a
    word without an entry is the unknown, and what is unknown in a source has no words. The end mark of a source has
    some only where the tokenizer puts it there (`looks_up_end`); CTranslate2 adds its own after the look-up.

    Raises `MissingInputError`, or `DataError` naming the line that is not a piece, a tab and words.
    """
    by_piece = _parsed(path)
    if any(" " in name for name in by_piece):
        return None
    source, target = orders[0], orders[-1]
    own_ids = {lists[0][row]: own for row, own in source.our_ids.items()} | {
        name: len(source.rows) - len(unlisted) + number for number, name in enumerate(unlisted)
    }
    word_ids = {lists[-1][row]: own for row, own in target.our_ids.items()}
    listed: list[list[int]] = [[] for _ in source.rows]
    for name, words in by_piece.items():
        own = own_ids.get(name, 0)
        if own >= len(SPECIAL_TOKENS) or (own == EOS_ID and looks_up_end):
            listed[own] = _written(words, word_ids)
    always = {EOS_ID, UNK_ID, *_written(by_piece.get("", []), word_ids)}
    starts = np.cumsum([0, *map(len, listed)])
    joined = np.array([word for own in listed for word in own], np.int32)
    return Shortlist(np.array(sorted(always), np.int32), starts.astype(np.int32), joined)


def _parsed(path: Path) -> dict[str, list[str]]:
    """Return the words of each piece; those of "" may always be written."""
    try:
        text = read_regular(path, _MAX_SIZE).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("{path}: is not text in UTF-8; restore or remove the file", path) from None
    by_piece = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        # as CTranslate2 reads lines, without the return of Windows
        name, *words = line.removesuffix("\r").split("\t")
        if len(words) != 1:
            raise DataError(
                "{path}:{number}: is not a piece of the source, one tab and words: {line}; restore or remove the file"
            ).fill(path, number, shown(line))
        by_piece[name] = words[0].split(" ")
    return by_piece


def _written(words: Sequence[str], ids: Mapping[str, int]) -> list[int]:
    """Return the rising ids of words, without the marks that are never written."""
    return sorted({own for own in (ids.get(word, UNK_ID) for word in words) if own >= EOS_ID})


MODEL, CONFIG = "model.bin", "config.json"
PREFIX = "target_prefix"
"""What names the entry that every output begins with, in a package of Argos and in what dikkat writes."""


def is_ctranslate2(path: Path) -> bool:
    """Return whether a path is a folder of CTranslate2: its model.bin, or any with vocabularies next to it."""
    return (path / MODEL).is_file() and (any(path.glob("*_vocabulary.*")) or begins_as_model(path / MODEL))


def read_ctranslate2(folder: Path, languages: Languages | None = None, pieces: Path | None = None) -> ForeignTranslator:
    """Read the translator in a folder, with its `languages` and its SentencePiece model where they stand elsewhere.

    A model whose pieces stand elsewhere is one of Argos, which never asks for vmap.txt: it is not read then. Raises
    `MissingInputError` or `DataError` naming the file and what is wrong with it.
    """
    stored = ForeignSettings.read(folder / CONFIG) if (folder / CONFIG).exists() else None
    own = {} if stored is None else stored.values.get(OWN)
    own = own if isinstance(own, dict) else {}
    if own and stored is not None:
        check_checksums(folder, stored.values)
    path = folder / MODEL
    file, config = with_settings(read_model_file(path), stored, path)
    scalars, arrays = _separated(path, with_names_of_today(file))
    settings, starts_from_zero = described(scalars, arrays, path, config)
    settings["add_source_eos"] = adds_source_eos(config, starts_from_zero, is_packaged=pieces is not None)
    entries = read_entries(folder, config)
    target = settings.get("target_vocab_size")
    if target is None and len(entries) == 2 and not settings["tie_embeddings"]:
        target = settings["target_vocab_size"] = settings["vocab_size"]
    model = checked_settings(ModelConfig, settings, path)
    _check_sizes(folder, model, [len(one) for one in entries])
    kept = _each_once(model, arrays, path)
    table = tuple(rows(model))
    ours = our_weights(table, kept, model, path, path)
    orders, tokenizers = read_vocabularies(
        folder, config, entries, starts_from_zero=starts_from_zero, count=1 if target is None else 2, pieces=pieces
    )
    if not model.output_bias:
        ours[BIAS] = ours[OUTPUT].new_zeros(len(ours[OUTPUT]))
        model = model.model_copy(update={"output_bias": True})
    # who calls it for a model that lacks add_source_eos puts the mark among the pieces
    looks_up_end = model.add_source_eos and not config.values.get("add_source_eos", False)
    has_map = pieces is None and (folder / VMAP).exists()
    unlisted = tokenizers[0].entries[len(orders[0].rows) - orders[0].read_as_unknown :]
    listed = read_vmap(folder / VMAP, orders, entries, unlisted, looks_up_end=looks_up_end) if has_map else None
    translator = ForeignTranslator(
        "CTranslate2",
        sized(model, orders),
        reordered(ours, orders),
        table,
        orders,
        tokenizers,
        _decoding(own),
        languages or Languages(*(language_code(own.get(f"{side}_language")) for side in ("source", "target"))),
        (SEVERAL_PIECES,) if has_map and listed is None else (),
        listed,
    )
    return with_target_prefix(translator, own.get(PREFIX), config.path)


def with_target_prefix(translator: ForeignTranslator, entry: object, where: Path) -> ForeignTranslator:
    """Return the translator whose every output begins with an entry, as the file `where` says; None is none.

    Raises `DataError` for what is not an entry that may be written.
    """
    if entry is None:
        return translator
    entries = translator.tokenizers[-1].entries
    order = translator.orders[-1]
    last = len(order.rows) - order.read_as_unknown
    spelled = [entry, hidden(entry)] if isinstance(entry, str) else []
    # an entry of this very name before a hidden one
    ids = [number for name in spelled for number in range(len(SPECIAL_TOKENS), last) if entries[number] == name]
    if not ids:
        raise DataError("{where}: {name} = {entry} must be an entry of the target's vocabulary").fill(
            where, PREFIX, shown(repr(entry))
        )
    return replace(translator, model=translator.model.model_copy(update={PREFIX: ids[0]}))


def _separated(path: Path, model: ModelFile) -> tuple[dict[str, Array], dict[str, Array]]:
    """Its settings, which have no sizes, and its weights in float32, each by each of its names."""
    # a scale of int16 is one number
    scales = {name for name in model.variables if name.endswith(SCALE)}
    scalars = {name: array for name, array in model.variables.items() if array.ndim == 0 and name not in scales}
    stored = {name: array for name, array in model.variables.items() if name not in scalars}
    try:
        arrays = restored(stored)
    except ValueError as error:
        raise DataError("{name}: {fact}", path, error) from None
    aliased = {alias: name for alias, name in model.aliases.items() if not alias.endswith(SCALE)}
    for alias, name in aliased.items():
        if name not in arrays:
            raise DataError("{path}: {alias} stands for {name}, which is not a weight", path, shown(alias), shown(name))
        arrays[alias] = arrays[name]
    return scalars, arrays


def _each_once(model: ModelConfig, arrays: Mapping[str, Array], path: Path) -> dict[str, Tensor]:
    """The weights of our table, without those that hold the numbers of another and without computed positions."""
    kept = dict(arrays)
    for copy in copies(model):
        kept.pop(copy, None)
    if model.positions != "learned":
        kept.pop(POSITIONS[1])
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in kept.items()}
    for name, tensor in tensors.items():
        require_finite(tensor, path, name)
    return halved(tensors)


def _check_sizes(folder: Path, model: ModelConfig, sizes: list[int]) -> None:
    wanted = [model.vocab_size, model.target_vocab_size or model.vocab_size]
    if [sizes[0], sizes[-1]] != wanted:
        raise DataError(
            "{folder}: its vocabularies have {source_size:,} and {target_size:,} entries, but the model has rows "
            "for {source_rows:,} and {target_rows:,}"
        ).fill(folder, sizes[0], sizes[-1], wanted[0], wanted[1])


def _decoding(own: Mapping[str, object]) -> DecodingConfig:
    """What our export says, or the length penalty 1 that CTranslate2 has where nobody asks for another."""
    penalty, thorough = own.get("length_penalty", 1.0), own.get("thorough", False)
    if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= 5:
        penalty = 1.0
    return DecodingConfig(length_penalty=float(penalty), thorough=thorough is True)
