"""What is added to the scores of attention by the distance of query and key: buckets (MPNet), vectors (DeBERTa)."""

import math

import numpy as np

from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array

BUCKETS, MAX_DISTANCE = 32, 128
"""Buckets of distances, half of them for keys after the query, and the distance that the last ones reach."""


class BucketBias:
    """One number for each head and bucket of distances (Raffel et al. 2020); twin: dikkat.nn.relative.BucketBias."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings) -> None:
        self._table = weights.array(f"{name}.comparison.bias.embedding", BUCKETS, settings.num_heads)

    def __call__(self, query: Array, key: Array) -> Array:
        """Return the bias (H, T, S) of queries (B, H, T, K), the last of the positions of keys (B, H, S, K)."""
        away = _distances(query, key)
        half, exact = BUCKETS // 2, BUCKETS // 4
        far = exact + _logarithms(away, exact, MAX_DISTANCE, half - exact, np.floor)
        rows = np.where(np.abs(away) < exact, np.abs(away), np.minimum(far, half - 1)) + np.where(away > 0, half, 0)
        # (T, S, H) -> (H, T, S)
        return np.ascontiguousarray(self._table[rows].transpose(2, 0, 1))


class DisentangledBias:
    """Products of queries and keys with vectors of distances; twin: dikkat.nn.scorers.DisentangledScore."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings, span: int) -> None:
        self._span, self._reach, self._beta = span, settings.relative_range, np.float32(settings.inverse_temperature)
        shape, score = (settings.num_heads, 2 * span, settings.head_dim), f"{name}.comparison.score"
        self._key, self._query = (weights.array(f"{score}.position_{part}", *shape) for part in ("key", "query"))

    def __call__(self, query: Array, key: Array) -> Array:
        """Return the bias (B, H, T, S) of queries (B, H, T, K) and keys (B, H, S, K)."""
        away = -_distances(query, key)
        if self._reach is not None:
            middle = self._span // 2
            far = middle + _logarithms(away, middle, self._reach - 1, middle - 1, np.ceil)
            away = np.where(np.abs(away) <= middle, away, far * np.sign(away))
        rows = (away + self._span).clip(0, 2 * self._span - 1)[None, None]
        # (B, H, T, K) x (H, K, 2 span) -> (B, H, T, 2 span) -> (B, H, T, S)
        by_query = np.take_along_axis(query @ self._key.swapaxes(1, 2), rows, axis=3)
        by_key = np.take_along_axis(key @ self._query.swapaxes(1, 2), rows.swapaxes(2, 3), axis=3)
        return np.asarray((by_query + by_key.swapaxes(2, 3)) * self._beta)


def _distances(query: Array, key: Array) -> Array:
    """Return how far each key is after each query, (T, S)."""
    queries, keys = query.shape[2], key.shape[2]
    return np.asarray(np.arange(keys) - np.arange(keys - queries, keys)[:, None])


def _logarithms(away: Array, least: int, most: int, steps: int, rounded: np.ufunc) -> Array:
    """Return how many of `steps` logarithmic ones lie between `least` and a distance; `most` is all of them."""
    # in float64, a billionth off: a power of the step must not fall beyond its own bucket
    exact = np.log(np.maximum(np.abs(away), least) / least) / math.log(most / least) * steps
    return np.asarray(rounded(exact + (1e-9 if rounded is np.floor else -1e-9)), np.int64)
