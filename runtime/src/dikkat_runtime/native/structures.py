"""The structures of the C kernels, field for field."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p

ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2}
"""The numbers of the activations of layers.h, by the names of config.json."""


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
    ]


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
    ]


class Norm(ctypes.Structure):
    """The structure `Norm` of layers.h."""

    _fields_ = [*_addresses("weight", "bias"), ("present", c_int64), ("eps", c_float)]


class Encoder(ctypes.Structure):
    """The structure `Encoder` of encoder.c."""

    _fields_ = [
        *_numbers("layers", "width", "heads", "head_width", "hidden", "post_norm", "activation"),
        *_addresses("linears", "norms", "betas"),
        ("sentences", c_int64),
        ("starts", c_void_p),
        ("threads", c_int64),
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
        *_addresses("scratch", "neighbour_states", "neighbour_rates", "neighbour_tokens", "neighbour_starts"),
        ("neighbour_weight", c_float),
        *_addresses("states_out", "weights_out", "words"),
    ]


class Search(ctypes.Structure):
    """The structure `Search` of search.c."""

    _fields_ = [
        *_numbers("beam", "best", "early_stop_rank", "longest", "padding", "begin", "end"),
        *_addresses("caps", "penalties", "positions", "logits"),
        *_addresses("tokens", "next_tokens", "next_slots", "parents", "is_taken", "waiting"),
        *_addresses("ranked", "ranked_tokens", "candidates", "candidate_indices"),
        *_addresses("live_tokens", "history", "live"),
        *_addresses("ended_tokens", "ended_lengths", "ended", "scores", "over_at", "scratch"),
    ]
