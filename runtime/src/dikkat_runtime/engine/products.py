"""Linear layers and attention over numpy arrays, computed by the C kernels.

A row, or a query, has the same bits in any batch and with any number of threads.
"""

import ctypes
import math
from collections.abc import Callable
from ctypes import c_int64

import numpy as np

from dikkat_runtime.errors import msg
from dikkat_runtime.native.arrays import Array, address, empty
from dikkat_runtime.native.library import Attention, Grouped, Linear, library

# Non-linearities over numpy arrays, in the precision of their argument.

_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""Chebyshev coefficients of Press et al. 2007, section 6.2: a relative error below 1.2e-7 everywhere."""


def erf(x: Array) -> Array:
    """Return the error function of `x`, in float64."""
    magnitude = np.abs(x, dtype=np.float64)
    t = 1.0 / (1.0 + 0.5 * magnitude)
    series = np.zeros_like(t)
    for coefficient in reversed(_ERFC):
        series = series * t + coefficient
    upper = t * np.exp(series - magnitude * magnitude)
    return np.asarray(np.where(x >= 0, 1.0 - upper, upper - 1.0))


def gelu(x: Array) -> Array:
    """Return `x` times the share of a normal distribution below it (Hendrycks and Gimpel 2016)."""
    return (0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))).astype(x.dtype)


def gelu_tanh(x: Array) -> Array:
    """Return the approximation of `gelu` by a tanh (Hendrycks and Gimpel 2016, section 2), as in GPT-2."""
    return (0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)


def relu(x: Array) -> Array:
    """Return the larger of `x` and 0."""
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    """Return `x` times its logistic function."""
    return (x / (1.0 + np.exp(-x))).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    """Return the logistic function of `x`, without overflow."""
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decay, 1) / (1 + decay))


PLAIN: dict[str, Callable[[Array], Array]] = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
TRANSFORMS: dict[str, Callable[[Array], Array]] = {**PLAIN, "tanh": np.tanh}
"""Non-linearities of the layer between pooling and output of a classifier."""
GATED: dict[str, Callable[[Array], Array]] = {"geglu": gelu, "geglu_tanh": gelu_tanh, "swiglu": silu}


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
    rows = x.size // layer.inputs
    kernels = library()[0]
    compute = kernels.grouped_layer if isinstance(layer, Grouped) else kernels.linear_layer
    if compute(ctypes.byref(layer), address(x), address(output), rows, threads):
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
