"""Linear layers and attention over numpy arrays, computed by the C kernels.

A row, or a query, has the same bits in any batch and with any number of threads.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64

import numpy as np

from dikkat_runtime.messages import msg
from dikkat_runtime.native.arrays import Array, address, empty
from dikkat_runtime.native.library import library
from dikkat_runtime.native.structures import Attention, Linear


def linear(layer: Linear, x: Array, threads: int) -> Array:
    """Return outputs (…, outputs) of a linear layer over `x` (…, inputs), in int8 where it is packed so."""
    x = np.ascontiguousarray(x, np.float32)
    output = empty((*x.shape[:-1], layer.outputs))
    rows = x.size // layer.inputs
    if library()[0].linear_layer(ctypes.byref(layer), address(x), address(output), rows, threads):
        raise MemoryError(msg("no memory left for a linear layer"))
    return output


def attend(query: Array, key: Array, value: Array, mask: Array, beta: float, threads: int) -> Array:
    """Return attention (B, T, H * K) of queries (B, H, T, K) over keys (B, H, S, K); beta multiplies the scores.

    `mask` is True where a key may be attended to, broadcastable to (B, H, T, S). A query that may attend to nothing
    gives zero. The last axis of each array must be contiguous.
    """
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    output = empty((batch, queries, heads, width))
    seen = np.broadcast_to(mask, (batch, heads, queries, keys))
    job = Attention(batch, heads, queries, keys, width, width, *map(address, (query, key, value)))
    job.query_strides, job.key_strides, job.value_strides = map(_strides, (query, key, value))
    job.mask, job.mask_strides = address(seen), (c_int64 * 4)(*seen.strides)
    job.beta, job.scale, job.is_float32, job.threads = beta, 1.0, 1, threads
    if library()[0].attention_forward(ctypes.byref(job), address(output)):
        raise MemoryError(msg("no memory left to attend"))
    return output.reshape(batch, queries, heads * width)


def _strides(heads: Array) -> ctypes.Array[c_int64]:
    """Return the entries between two texts, two heads and two positions."""
    return (c_int64 * 3)(*(stride // heads.itemsize for stride in heads.strides[:3]))
