"""Linear layers and attention over numpy arrays, computed by the C kernels.

A row, or a query, has the same bits in any batch and with any number of threads.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_int64
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.errors import msg
from dikkat_runtime.native.arrays import Array, address, empty
from dikkat_runtime.native.library import ACTIVATIONS, Attention, Grouped, Linear, library


def sigmoid(x: Array) -> Array:
    """Return the logistic function of `x`, without overflow."""
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decay, 1) / (1 + decay))


GATED = {"geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}
"""The non-linearity of the first half of each row, by which the second half is multiplied."""


def activated(name: str, x: Array, threads: int) -> Array:
    """Return what follows `x` (…, F), or where the non-linearity is `GATED` (…, 2 * F): (…, F)."""
    x = np.ascontiguousarray(x, np.float32)
    width = x.shape[-1] // (2 if name in GATED else 1)
    output = empty((*x.shape[:-1], width))
    rows, number = x.size // x.shape[-1], ACTIVATIONS[GATED.get(name, name)]
    library()[0].activate_rows(address(output), address(x), rows, width, name in GATED, number, threads)
    return output


def softmax(scores: Array) -> Array:
    """Return the softmax over the last axis; a row in which all scores are minus infinity becomes zero."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1))


def linear(layer: Linear | Grouped, x: Array, threads: int) -> Array:
    """Return outputs (…, outputs) of a linear layer over `x` (…, inputs), in the bits that it is packed in."""
    x = np.ascontiguousarray(x, np.float32)
    output = empty((*x.shape[:-1], layer.outputs))
    kernels = library()[0]
    compute = kernels.grouped_layer if isinstance(layer, Grouped) else kernels.linear_layer
    if compute(ctypes.byref(layer), address(x), address(output), x.size // layer.inputs, threads):
        raise MemoryError(msg("no memory left for a linear layer"))
    return output


def table_rows(table: Array | Grouped, ids: Array) -> Array:
    """Return the rows (…, D) of a matrix (V, D) at `ids` (…)."""
    if not isinstance(table, Grouped):
        return np.asarray(table[ids])
    ids, output = np.ascontiguousarray(ids, np.int64), empty((*ids.shape, table.inputs))
    library()[0].grouped_rows(ctypes.byref(table), address(ids), address(output), ids.size)
    return output


DISTANCE_BUCKETS = 32
"""Buckets of distances, as T5 and MPNet have them."""


@dataclass(slots=True)
class Distances:
    """Hold what the distance of a key from a query adds to their score: a bias, or products with vectors."""

    bias: Array | None = None
    """A number (DISTANCE_BUCKETS, H) for each bucket, after beta."""
    vectors: Sequence[Array] = ()
    """Vectors (H, 2 span, K) that queries, and that keys, are multiplied with (He et al. 2021)."""
    reach: int = 0
    """The distance that the last vector reaches; 0 where each distance has one of its own."""
    is_causal: bool = False
    """Whether all buckets are for keys before the query."""


def attend(
    query: Array, key: Array, value: Array, mask: Array, beta: float, threads: int, distances: Distances | None = None
) -> Array:
    """Return attention (B, T, H * K) of queries (B, H, T, K) over keys (B, G, S, K); beta multiplies the scores.

    `mask` is True where a key may be attended to, broadcastable to (B, H, T, S). A query that may attend to nothing
    gives zero. With `distances`, queries are at the last positions of keys. The last axis of all must be contiguous.
    """
    batch, heads, queries, width = query.shape
    groups, keys = key.shape[1:3]
    if (size := heads // groups) > 1 and distances is None:
        # the queries of heads that share keys are those of one head: (B, H, T, K) -> (B, G, H / G * T, K)
        seen = mask if mask.shape[2] == 1 else np.tile(mask, (1, 1, size, 1))
        output = attend(query.reshape(batch, groups, -1, width), key, value, seen, beta, threads)
        # (B, H / G * T, G * K) -> (B, T, G, H / G, K)
        parts = output.reshape(batch, size, queries, groups, width).transpose(0, 2, 3, 1, 4)
        return parts.reshape(batch, queries, heads * width)
    output = empty((batch, queries, heads, width))
    seen = np.broadcast_to(mask, (batch, heads, queries, keys))
    job = Attention(batch, heads, queries, keys, width, width, *map(address, (query, key, value)))
    job.query_strides, job.key_strides, job.value_strides = map(_strides, (query, key, value))
    job.mask, job.mask_strides = address(seen), (c_int64 * 4)(*seen.strides)
    job.beta, job.scale, job.is_float32, job.threads = beta, 1.0, 1, threads
    if distances is not None:
        job.distance_bias, job.distance_is_causal = address(distances.bias), distances.is_causal
        if distances.vectors:
            job.distance_key, job.distance_query = map(address, distances.vectors)
            job.distance_span, job.distance_reach = distances.vectors[0].shape[1] // 2, distances.reach
    if library()[0].attention_forward(ctypes.byref(job), address(output)):
        raise MemoryError(msg("no memory left to attend"))
    return output.reshape(batch, queries, heads * width)


def _strides(heads: Array) -> ctypes.Array[c_int64]:
    """Return the entries between two texts, two heads and two positions."""
    return (c_int64 * 3)(*(stride // heads.itemsize for stride in heads.strides[:3]))
