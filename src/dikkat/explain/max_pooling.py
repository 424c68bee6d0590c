"""Reduce a large attention map for pictures: each tile shows the largest weight under it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dikkat.explain.attention_map import AttentionMap


def max_pooled(attention_map: AttentionMap, longest: int) -> tuple[AttentionMap, tuple[int, int]]:
    """Return the map with at most `longest` tiles an axis, and the rows and columns of a tile: (1, 1) if all cells fit.

    A tile is labelled with its first tokens. It shows the largest weight, since the mean would hide a single strong
    link.
    """
    rows, columns = (math.ceil(length / longest) or 1 for length in attention_map.weights.shape)
    if rows == columns == 1:
        return attention_map, (1, 1)
    weights = np.maximum.reduceat(attention_map.weights, range(0, attention_map.weights.shape[0], rows), axis=0)
    weights = np.maximum.reduceat(weights, range(0, attention_map.weights.shape[1], columns), axis=1)
    shrunk = replace(
        attention_map,
        weights=weights,
        query_tokens=attention_map.query_tokens[::rows],
        key_tokens=attention_map.key_tokens[::columns],
    )
    return shrunk, (rows, columns)
