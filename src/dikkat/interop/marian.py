"""Translators of Marian and of Firefox (Bergamot): a `.npz` or `.bin` file, vocabularies, and a `.yml` next to them.

Read the `.bin` file of a Marian model, in float32 or in the eight bits of Firefox's translators (intgemm).

Numbers of 8 bytes: the version, 1, and how many tensors; for each the length of its name, its type, the number of its
sizes and its bytes. Then all names, ended by a zero, all sizes in 4 bytes, the length of a gap, the gap, and all data.
A tensor of eight bits has its multiplier m after it, a float32: its weights are q / m.
"""

import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.config import DecodingConfig, ModelConfig
from dikkat.interop.ctranslate2.model_file import ByteReader
from dikkat.interop.foreign_translator import (
    BIAS,
    OUTPUT,
    SOURCE,
    TARGET,
    ForeignTranslator,
    Languages,
    checked_settings,
    our_weights,
    reordered,
    sized,
)
from dikkat.interop.marian_npz import read_npz
from dikkat.interop.marian_options import DECODER, Option, config_files, model_settings, read_options, values_of
from dikkat.interop.marian_shortlist import read_binary_shortlist
from dikkat.interop.piece_vocabulary import VocabularyOrder, side_tokenizers
from dikkat.interop.sentencepiece_file import PieceKind, SentencePieceModel, read_sentencepiece
from dikkat.models.key_table import Row
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError, MissingInputError, msg
from dikkat_runtime.server.languages import NAMES
from dikkat_runtime.text.foreign_json import read_regular, require_regular, shown

# Vocabularies of Marian: a SentencePiece model, or a `.yml` with the id of every piece and the models next to it.

SIDES = ("source.spm", "target.spm")
"""Files that cut a text into the pieces of a .yml, in the folder of it."""
_MAX_SIZE = 64 << 20
_KEY = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^ \t](?:.*[^ \t])?"
_ENTRY = re.compile(rf"(?P<key>{_KEY})[ \t]*:[ \t]+(?P<id>[0-9]{{1,7}})[ \t\r]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ",
    '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
"""Characters by the letter after a backslash (YAML 1.2, section 5.7)."""


@dataclass(frozen=True, slots=True)
class MarianVocabulary:
    """Hold what one side's text becomes ids by."""

    entries: tuple[str, ...]
    """By their ids."""
    model: SentencePieceModel
    order: VocabularyOrder


def read_vocabulary(path: Path, side: int) -> MarianVocabulary:
    """Read the vocabulary of a side, 0 for the source. Raises `MissingInputError` or `DataError` naming the file."""
    if path.suffix == ".spm":
        model = read_sentencepiece(path)
        entries = tuple(piece.text for piece in model.pieces)
        unknown = next((number for number, piece in enumerate(model.pieces) if piece.kind == PieceKind.UNKNOWN), None)
    else:
        entries = _listed(path)
        model = read_sentencepiece(path.with_name(SIDES[side]))
        unknown = entries.index("<unk>") if "<unk>" in entries else None
    if unknown is None or "</s>" not in entries:
        raise DataError("{path}: has no entry for the end, </s>, or none for the unknown", path)
    order = VocabularyOrder.of(len(entries), end=entries.index("</s>"), unknown=unknown)
    return MarianVocabulary(entries, model, order)


def _listed(path: Path) -> tuple[str, ...]:
    """Return the entries of a .yml by their ids, a line each: it was written without a library of YAML."""
    try:
        lines = read_regular(path, _MAX_SIZE).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise DataError("{path}: is not text in UTF-8", path) from None
    ids: dict[int, str] = {}
    asked = ""
    for number, line in enumerate(lines, start=1):
        if line.startswith("? ") and not asked:
            asked = line[2:]
            continue
        line, asked = (asked + line, "") if asked else (line, "")
        if not line.strip() or line == "---":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or int(entry["id"]) in ids:
            raise DataError(
                "{path}: line {number} must be a piece with an id of its own, not: {line}", path, number, shown(line)
            )
        ids[int(entry["id"])] = _piece(entry["key"], f"{path}: line {number}")
    if asked or not ids or set(ids) != set(range(len(ids))):
        raise DataError("{path}: does not name all pieces from 0 to {ids:,}", path, max(ids, default=0))
    entries = tuple(ids[number] for number in range(len(ids)))
    if len(set(entries)) < len(entries):
        raise DataError("{path}: a piece occurs twice", path)
    return entries


def _piece(key: str, where: str) -> str:
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    if len(key) < 2 or not key[0] == key[-1] == '"':
        return key

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is not None:
            return chr(int(code, 16))
        if match[4] not in _NAMED:
            raise ValueError
        return _NAMED[match[4]]

    try:
        piece = _ESCAPE.sub(character, key[1:-1])
        piece.encode()
    except (ValueError, OverflowError):
        raise DataError("{where} has an escape that stands for no character: {key}", where, shown(key)) from None
    return piece


# The parameters of Marian, by its names in .npz and .bin files, and ours; see src/models/transformer.h there.
#
# A file keeps matrices as (inputs, outputs), and vectors as (1, D). Layers are numbered from 1.


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a translator of these settings."""
    table = list(_embeddings(model))
    for number in range(model.encoder_layers):
        ours, theirs = f"encoder.blocks.{number}", f"encoder_l{number + 1}"
        table += [*_attention(ours, theirs, "self"), *_feed_forward(ours, theirs)]
    for number in range(model.decoder_layers):
        ours, theirs = f"decoder.blocks.{number}", f"decoder_l{number + 1}"
        first = _recurrence(ours, theirs) if model.decoder_memory == "ssru" else _attention(ours, theirs, "self")
        table += [*first, *_attention(ours, theirs, "cross"), *_feed_forward(ours, theirs)]
    return table


def _embeddings(model: ModelConfig) -> Iterator[Row]:
    if model.target_vocab_size is None:
        yield Row(OUTPUT, ("Wemb",))
    else:
        yield Row(SOURCE, ("encoder_Wemb",))
        if model.tie_embeddings:
            yield Row(OUTPUT, ("decoder_Wemb",))
        else:
            yield Row(TARGET, ("decoder_Wemb",))
            yield Row(OUTPUT, ("decoder_ff_logit_out_Wt",))
    yield Row(BIAS, ("decoder_ff_logit_out_b",))


def _attention(ours: str, theirs: str, kind: str) -> Iterator[Row]:
    own, name = f"{ours}.{kind}_attention", f"{theirs}_{'context' if kind == 'cross' else 'self'}"
    yield Row(f"{own}.in_projection.weight", tuple(f"{name}_W{part}" for part in "qkv"), transposed=True)
    yield Row(f"{own}.in_projection.bias", tuple(f"{name}_b{part}" for part in "qkv"))
    yield Row(f"{own}.out_projection.weight", (f"{name}_Wo",), transposed=True)
    yield Row(f"{own}.out_projection.bias", (f"{name}_bo",))
    yield from _norm(f"{ours}.{kind}_residual.norm", f"{name}_Wo_ln")


def _recurrence(ours: str, theirs: str) -> Iterator[Row]:
    yield Row(f"{ours}.recurrence.content.weight", (f"{theirs}_rnn_W",), transposed=True)
    yield Row(f"{ours}.recurrence.forget.weight", (f"{theirs}_rnn_Wf",), transposed=True)
    yield Row(f"{ours}.recurrence.forget.bias", (f"{theirs}_rnn_bf",))
    yield from _norm(f"{ours}.self_residual.norm", f"{theirs}_rnn_ffn_ln")


def _feed_forward(ours: str, theirs: str) -> Iterator[Row]:
    for part, number in (("inner", 1), ("outer", 2)):
        yield Row(f"{ours}.feed_forward.{part}.weight", (f"{theirs}_ffn_W{number}",), transposed=True)
        yield Row(f"{ours}.feed_forward.{part}.bias", (f"{theirs}_ffn_b{number}",))
    yield from _norm(f"{ours}.feed_forward_residual.norm", f"{theirs}_ffn_ffn_ln")


def _norm(ours: str, theirs: str) -> Iterator[Row]:
    yield Row(f"{ours}.weight", (f"{theirs}_scale",))
    yield Row(f"{ours}.bias", (f"{theirs}_bias",))


_MAX_MODEL_SIZE = 1 << 34
_VERSION = 1
_MAX_TENSORS = 1 << 14
_FLOAT32, _INTGEMM8, _TEXT = 0x404, 0x4101, 0x101
_OPTIONS = "special:model.yml"
_EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")
"""Matrices of eight bits that are stored as they are; the others have outputs before inputs."""


def read_binary(path: Path) -> tuple[dict[str, Tensor], bytes]:
    """Return the weights in float32 by their names, and the options of the model.

    Raises `MissingInputError`, or `DataError` for a damaged file or a type that is not read.
    """
    content = read_regular(path, _MAX_MODEL_SIZE)
    try:
        return _parsed(ByteReader(content))
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise DataError("{path}: not a readable Marian model ({error})", path, shown(str(error))) from None


def _parsed(reader: ByteReader) -> tuple[dict[str, Tensor], bytes]:
    version, count = reader.number("Q"), reader.number("Q")
    if version != _VERSION or not 0 < count <= _MAX_TENSORS:
        raise ValueError(f"version {version} with {count:,} tensors, where version {_VERSION} is read")
    headers = [struct.unpack("<QQQQ", reader.part(32)) for _ in range(count)]
    names = [bytes(reader.part(length)).rstrip(b"\0").decode("utf-8") for length, _, _, _ in headers]
    shapes = [struct.unpack(f"<{sizes}i", reader.part(4 * sizes)) for _, _, sizes, _ in headers]
    # a gap, after which the data begin
    reader.part(reader.number("Q"))
    weights: dict[str, Tensor] = {}
    options = None
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        data = reader.part(size)
        if name == _OPTIONS:
            options = bytes(data)
        elif name in weights or min(shape, default=0) <= 0:
            raise ValueError(f"the tensor {name} is there twice, or without sizes")
        else:
            weights[name] = torch.from_numpy(_numbers(name, kind, shape, data))
    if options is None or reader.at != len(reader.content):
        raise ValueError(f"it has no {_OPTIONS}, or {len(reader.content) - reader.at:,} bytes after its end")
    return weights, options


def _numbers(name: str, kind: int, shape: tuple[int, ...], data: memoryview) -> NDArray[np.float32]:
    count = math.prod(shape)
    if kind == _FLOAT32 and len(data) >= 4 * count:
        return np.frombuffer(data[: 4 * count], "<f4").reshape(shape).astype(np.float32)
    if kind == _INTGEMM8 and len(data) >= count + 4:
        (multiplier,) = struct.unpack_from("<f", data, count)
        if not (math.isfinite(multiplier) and multiplier > 0):
            raise ValueError(f"the multiplier of {name} is {multiplier}")
        transposed = len(shape) == 2 and name not in _EMBEDDINGS
        rounded = np.frombuffer(data[:count], np.int8).reshape(shape[::-1] if transposed else shape)
        numbers = rounded.astype(np.float32) / np.float32(multiplier)
        return np.ascontiguousarray(numbers.T if transposed else numbers)
    raise ValueError(f"the tensor {name} is of the type {kind:#x} with {len(data):,} bytes, which is not read")


SUFFIXES = (".npz", ".bin")
_MAX_OPTIONS = 1 << 20
_VECTOR = re.compile(r"_(?:b[1-9a-z]|bias|scale|out_b)$")
_ACTIVATION_SCALE = "_QuantMultA"
"""Ends the names of the scales that activations are rounded by in Bergamot's engine; ours measures its own."""
_PAIR = re.compile(r"model\.([a-z]{2})([a-z]{2})\.")
"""Begins the name of a file of Firefox, as `model.enfr.intgemm.alphas.bin`."""


def is_marian(path: Path) -> bool:
    """Return whether a path is a model file of Marian, or a folder of one with its `.yml`."""
    if path.is_dir():
        # the folders of Hugging Face, too, may hold a .bin and a .yml
        if (path / "config.json").exists():
            return False
        suffixes = {file.suffix.lower() for file in path.iterdir()}
        return ".npz" in suffixes or (".bin" in suffixes and len(config_files(path)) == 1)
    return path.suffix.lower() in SUFFIXES


def read_marian(path: Path) -> ForeignTranslator:
    """Read the translator in a file, or in a folder with a `.yml` that names it and its vocabularies.

    Raises `MissingInputError` or `DataError` naming the file and what is wrong with it.
    """
    if not path.is_dir():
        require_regular(path)
    folder = path if path.is_dir() else path.parent
    config = _config(path, folder)
    options = read_options(read_regular(config, _MAX_OPTIONS), str(config))
    file = path if path.is_file() else _named(folder, options, "models", config, 1)[0]
    named = _named(folder, options, "vocabs", config, 2)
    vocabularies = [read_vocabulary(vocabulary, side) for side, vocabulary in enumerate(named)]
    stored, text = read_npz(file) if file.suffix.lower() == ".npz" else read_binary(file)
    sizes = [len(one.entries) for one in vocabularies]
    model = checked_settings(ModelConfig, model_settings(read_options(text, str(file)), str(file), sizes), file)
    table = tuple(rows(model))
    theirs = {name: _shaped(name, tensor) for name, tensor in stored.items() if not name.endswith(_ACTIVATION_SCALE)}
    is_joint = model.target_vocab_size is None
    if is_joint and vocabularies[1].entries != vocabularies[0].entries:
        raise DataError("{config}: names two vocabularies, but {name} has one matrix for both", config, file.name)
    ours = our_weights(table, theirs, model, file, file)
    models, first_orders, lists = zip(*((one.model, one.order, one.entries) for one in vocabularies), strict=True)
    orders, tokenizers = side_tokenizers(models, first_orders[:1] if is_joint else first_orders, lists)
    # one file for both sides is one vocabulary there, though the matrices be two
    listed = _shortlist(folder, options, orders[:1] if named[0] == named[1] else orders)
    return ForeignTranslator(
        msg("Firefox (Bergamot)") if file.suffix.lower() == ".bin" else "Marian",
        sized(model, orders),
        reordered(ours, orders),
        table,
        orders,
        tokenizers,
        DecodingConfig(length_penalty=_normalization(options, config)),
        _languages(file),
        _left_out(stored, options, listed),
        listed,
    )


def _config(path: Path, folder: Path) -> Path:
    """The file of options for a model file, or for the only model of a folder. Raises `MissingInputError`."""
    candidates = config_files(folder)
    if path.is_file():
        # where it trains one, Marian leaves one more of each model that was the best by some measure
        candidates = [one for one in candidates if one.name == f"{path.name}{DECODER}"] or candidates
    if not candidates:
        raise MissingInputError("{folder}: there is no decoder.yml or other single .yml to name vocabularies", folder)
    if len(candidates) > 1:
        models = [one.name.removesuffix(DECODER) for one in candidates if one.name.endswith(DECODER)]
        ways = (
            msg("name the file of one model, such as {folder}", folder / models[0])
            if models
            else msg("name them in a decoder.yml")
        )
        listed = ", ".join(shown(one.name) for one in candidates[:3]) + (", …" if len(candidates) > 3 else "")
        raise MissingInputError(
            "{folder}: several .yml may name the vocabularies ({names}); {advice}", folder, listed, ways
        )
    return candidates[0]


def _named(folder: Path, options: Mapping[str, Option], name: str, config: Path, count: int) -> list[Path]:
    """The files that an option lists. Raises `DataError` where they are not so many files within the folder."""
    names = values_of(options, name)
    if len(names) != count:
        raise DataError("{config}: {name} must be {expected} file{plural}, not {count}").fill(
            config, name, count, "s" if count > 1 else "", len(names)
        )
    # Marian itself writes whole paths; one that leads into the folder is as good as the name
    home = folder.resolve()
    names = [Path(one).name if Path(one).parent == home else one for one in names]
    for file_name in names:
        if not file_name.isprintable():
            raise DataError("{config}: {name} is not a file name: {file_name}", config, name, shown(file_name))
        if Path(file_name).is_absolute() or ".." in Path(file_name).parts:
            raise DataError(
                "{path}: {name} names a file outside the folder: {file_name}", config, name, shown(file_name)
            )
        if name == "vocabs" and Path(file_name).suffix not in (".spm", ".yml"):
            raise DataError("{config}: the vocabulary {file_name} must be a SentencePiece model (.spm) or .yml").fill(
                config, shown(file_name)
            )
    return [folder / file_name for file_name in names]


def _shaped(name: str, tensor: Tensor) -> Tensor:
    """(1, D) -> (D,) for what is a vector of ours."""
    return tensor.flatten() if _VECTOR.search(name) and tensor.dim() == 2 and tensor.shape[0] == 1 else tensor


def _normalization(options: Mapping[str, Option], config: Path) -> float:
    value = options.get("normalize", "0")
    try:
        alpha = float(value) if isinstance(value, str) else -1.0
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha <= 5:
        raise DataError("{config}: normalize must be a number from 0 to 5, not {value}", config, shown(repr(value)))
    return alpha


def _languages(file: Path) -> Languages:
    # Marian names files of its own after what they hold, as model.npz.orig.npz, and people model.best.npz
    pair = _PAIR.match(file.name)
    return Languages(pair[1], pair[2]) if pair and {pair[1], pair[2]} <= NAMES.keys() else Languages()


def _shortlist(folder: Path, options: Mapping[str, Option], orders: tuple[VocabularyOrder, ...]) -> Shortlist | None:
    """Return the binary shortlist that an option names, if the folder has it. Raises `DataError` for a damaged one."""
    named = values_of(options, "shortlist")
    if not named or not named[0].endswith(".bin") or not named[0].isprintable():
        return None
    # the whole path of another computer names nothing here, as one that is gone does
    path = folder / named[0]
    is_within = path.resolve().is_relative_to(folder.resolve())
    return read_binary_shortlist(path, orders) if is_within and os.path.exists(path) else None


def _left_out(stored: Mapping[str, Tensor], options: Mapping[str, Option], listed: Shortlist | None) -> tuple[str, ...]:
    scales = sum(name.endswith(_ACTIVATION_SCALE) for name in stored)
    named = [msg("{scales} scales of activations", scales)] if scales else []
    shortlist = values_of(options, "shortlist")
    if shortlist and listed is None:
        named.append(msg("the shortlist {shortlist}, so that every word may be written", shown(shortlist[0])))
    penalty = options.get("word-penalty", "0")
    if penalty not in ("0", "0.0"):
        named.append(msg("word-penalty = {penalty}, which the search here does not apply", shown(str(penalty))))
    return tuple(named)
