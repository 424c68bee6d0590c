"""Choose the compiled kernels in the package for this processor, else compile them, and load them once."""

import ctypes
import os
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from dikkat_runtime.errors import AbsentError, UsageError, msg
from dikkat_runtime.native.cpu import levels
from dikkat_runtime.native.library_cache import LEVELS, source_digest

# The structures of the C kernels, field for field.


ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "gelu_tanh": 3}
"""The numbers of the activations of layers.h, by the names of config.json."""
_WITHOUT_RESULT = ("top_", "norm", "pack_groups", "grouped_rows", "activate_", "score_tokens", "split_weights")
INDEX_ERROR, NOT_FINITE = 2, 3
"""What a kernel returns for an index that lies outside, and for states that are no finite numbers."""


def _numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, c_int64) for name in names]


def _addresses(*names: str) -> list[tuple[str, type]]:
    return [(name, c_void_p) for name in names]


class Packing(ctypes.Structure):
    """The structure `Packing` of byte_packing.h: a matrix that is laid out as eight-bit panels."""

    _fields_ = [
        *_addresses("weight", "scale", "shift", "source"),
        *_numbers("step", "outputs", "inputs", "columns", "is_float32"),
    ]


class Linear(ctypes.Structure):
    """The structure `Linear` of linear.h."""

    _fields_ = [
        *_addresses("weight", "bias"),
        *_numbers("inputs", "outputs"),
        *_addresses("packed_weight", "packed_scale", "packed_shift"),
        ("rank", c_int64),
        *_addresses("down", "up", "low_scales", "split"),
    ]


class Grouped(ctypes.Structure):
    """The structure `Grouped` of grouped_layer.c: a linear layer whose groups of weights have scales of their own."""

    _fields_ = [*_addresses("weight", "bias"), *_numbers("inputs", "outputs", "bits")]


class Rotation(ctypes.Structure):
    """The structure `Rotation` of rotation.h."""

    _fields_ = [*_addresses("cosines", "sines"), ("positions", c_int64), ("position_ids", c_void_p)]


class Attention(ctypes.Structure):
    """The structure `Attention` of attention.h."""

    _fields_ = [
        *_numbers("batch", "heads", "queries", "keys", "width", "value_width"),
        *_addresses("query", "key", "value"),
        *((f"{name}_strides", c_int64 * 3) for name in ("query", "key", "value")),
        ("mask", c_void_p),
        ("mask_strides", c_int64 * 4),
        ("random_bits", c_void_p),
        ("threshold", c_int64),
        ("beta", c_float),
        ("scale", c_float),
        ("rotation", Rotation),
        ("weights_out", c_void_p),
        *_numbers("is_float32", "threads"),
        *_addresses("distance_bias", "distance_key", "distance_query"),
        *_numbers("distance_span", "distance_reach", "distance_is_causal"),
    ]


class Norm(ctypes.Structure):
    """The structure `Norm` of layers.h."""

    _fields_ = [*_addresses("weight", "bias"), ("present", c_int64), ("eps", c_float)]


class Encoder(ctypes.Structure):
    """The structure `Encoder` of encoder.c."""

    _fields_ = [
        *_numbers("layers", "width", "heads", "head_width", "hidden", "post_norm", "activation", "vocabulary"),
        ("embedding", c_void_p),
        ("embedding_scale", c_float),
        *_addresses("linears", "norms", "betas"),
        ("sentences", c_int64),
        *_addresses("starts", "ids", "positions"),
        *_numbers("longest", "threads"),
        *_addresses("adapters", "segment", "embedding_norm"),
        ("rotation", Rotation),
        ("pools", c_int64),
    ]


class Words(ctypes.Structure):
    """The structure `Words` of word_logits.h."""

    _fields_ = _addresses("starts", "ids", "weights", "scales", "biases", "shifts")


class Decoder(ctypes.Structure):
    """The structure `Decoder` of decoder.h."""

    _fields_ = [
        *_numbers("layers", "width", "heads", "head_width", "hidden", "vocabulary"),
        ("embedding", c_void_p),
        ("embedding_scale", c_float),
        *_numbers("post_norm", "activation", "recurrent"),
        *_addresses("linears", "norms", "betas"),
        *_numbers("slots", "capacity", "sentences", "source_length"),
        *_addresses("keys", "values", "source_keys", "source_values", "writers", "source_mask"),
        *_numbers("rows", "length"),
        *_addresses("row_slots", "row_owners", "begun"),
        ("threads", c_int64),
        ("scratch", c_void_p),
        ("scratch_rows", c_int64),
        *_addresses("neighbour_states", "neighbour_rates", "neighbour_tokens", "neighbour_starts"),
        ("neighbour_weight", c_float),
        *_addresses("states_out", "weights_out", "words", "adapters", "source_adapters", "positions", "next"),
    ]


class Search(ctypes.Structure):
    """The structure `Search` of search.c."""

    _fields_ = [
        *_numbers("beam", "best", "early_stop_rank", "longest", "padding", "begin", "end"),
        *_addresses("caps", "penalties", "tokens", "live_tokens", "live"),
        *_addresses(
            "ended_tokens", "ended_lengths", "ended", "scores", "over_at", "token_scores", "ended_token_scores"
        ),
        ("own", c_void_p * 15),
    ]


class TablePart(ctypes.Structure):
    """The structure `TablePart` of word_table.c."""

    _fields_ = [*_addresses("hashes", "idf", "weights", "starts"), *_numbers("count", "shift", "characters")]


FOLDER = Path(__file__).parent / "lib"


@cache
def library() -> tuple[ctypes.CDLL, str]:
    """Return the loaded kernels and the name of their level. Raises `AbsentError` where none of them runs here.

    A library of the package is taken only if it was compiled from the present sources; without one it is compiled.
    `DIKKAT_NATIVE_LEVEL` names the level; without it the best one is taken. Raises `UsageError` where that level
    cannot be had.
    """
    # kernels compiled on this computer come before all levels of a wheel
    usable = ["native", *levels()]
    wanted = os.environ.get("DIKKAT_NATIVE_LEVEL", "")
    if wanted and wanted not in usable:
        raise UsageError("DIKKAT_NATIVE_LEVEL={level}: this processor can run {levels}", wanted, ", ".join(usable))
    there = [level for level in ([wanted] if wanted else usable) if library_path(FOLDER, level).exists()]
    level = there[0] if there else wanted or "native"
    loaded = _loaded(library_path(FOLDER, level)) if there else _compiled(wanted)
    _declare(loaded)
    return loaded, level


def library_path(folder: Path, level: str) -> Path:
    """Return the path of the kernels of a level, compiled from these sources, and if it matters for this processor."""
    return folder / f"kernels-{level}-{source_digest(level)}.so"


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise AbsentError(
            msg("{path} cannot be loaded ({error})", path, error), msg("reinstall dikkat-runtime")
        ) from None


def _compiled(wanted: str) -> ctypes.CDLL:
    # the compiling module is slow to import and needed once
    from dikkat_runtime.native.first_use import find_or_compile

    try:
        return find_or_compile(wanted or "native")
    except AbsentError as error:
        if wanted not in ("", "native"):
            raise UsageError(
                "DIKKAT_NATIVE_LEVEL={level}: {reason}; {advice}", wanted, error.reason, error.advice
            ) from None
        if wanted or not any(FOLDER.glob("kernels-*")):
            raise
        reason = msg("this processor cannot run those of the package ({built}), and {reason}")
        built = ", ".join(level for level in LEVELS if library_path(FOLDER, level).exists())
        raise AbsentError(reason.fill(built or msg("none of these sources"), error.reason), error.advice) from None


def _declare(loaded: ctypes.CDLL) -> None:
    """Compare sizes of structures, and set types of arguments. Raises `AbsentError` for other structures."""
    for structure in (Packing, Linear, Grouped, Norm, Attention, Encoder, Decoder, Search, Words, TablePart):
        try:
            size = c_int64.in_dll(loaded, f"size_of_{structure.__name__}").value
        except ValueError:
            size = 0
        if size != ctypes.sizeof(structure):
            reason = msg("{library} has another {structure} ({size} bytes, not {expected})")
            reason = reason.fill(loaded._name, structure.__name__, size, ctypes.sizeof(structure))
            raise AbsentError(reason, msg("reinstall dikkat-runtime"))
    decoder, search = POINTER(Decoder), POINTER(Search)
    arguments = {
        "pack_bytes": [POINTER(Packing), c_int],
        "linear_layer": [POINTER(Linear), c_void_p, c_void_p, c_int64, c_int64],
        "grouped_bytes": [POINTER(Grouped)],
        "pack_groups": [POINTER(Grouped), c_void_p, c_int64, c_int64],
        "grouped_layer": [POINTER(Grouped), c_void_p, c_void_p, c_int64, c_int64],
        "grouped_rows": [POINTER(Grouped), c_void_p, c_void_p, c_int64],
        "activate_rows": [c_void_p, c_void_p, *[c_int64] * 5],
        "attention_forward": [POINTER(Attention), c_void_p],
        "encoder_run": [POINTER(Encoder), c_void_p],
        "split_bytes": [POINTER(Linear), c_int64],
        "split_weights": [POINTER(Linear), c_int64, c_void_p],
        "decoder_scratch": [decoder],
        "decoder_read_source": [decoder, c_void_p, c_int64, POINTER(Linear)],
        "decoder_step": [decoder, c_void_p, c_void_p, c_void_p],
        "decoder_copy": [decoder, c_void_p, c_void_p, c_int64],
        "top_entries": [c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "normalizers": [c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "score_tokens": [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64],
        "searches_per_thread": [search, decoder],
        "hash_words": [*[c_void_p] * 2, c_int64, *[c_void_p] * 2, c_int64],
        "score_by_table": [POINTER(TablePart), c_int64, c_int64, *[c_void_p] * 2, c_int64, *[c_void_p] * 2, c_int64],
        "search_until": [search, decoder, c_int64],
    }
    for name, types in arguments.items():
        function = getattr(loaded, name)
        function.argtypes = types
        function.restype = None if name.startswith(_WITHOUT_RESULT) else c_int
    for name in ("decoder_scratch", "searches_per_thread", "grouped_bytes", "hash_words", "split_bytes"):
        getattr(loaded, name).restype = c_int64
