"""A large attention map in fewer cells, for pictures: each tile shows the largest weight under it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dikkat.explain.attention_map import AttentionMap


def tiled(each: AttentionMap, longest: int) -> tuple[AttentionMap, tuple[int, int]]:
    """The map with at most `longest` tiles an axis, and the rows and columns of a tile: (1, 1) if all cells fit.

    A tile is labelled with its first tokens. The largest weight, since the mean would hide a single strong link.
    """
    rows, columns = (math.ceil(length / longest) or 1 for length in each.weights.shape)
    if rows == columns == 1:
        return each, (1, 1)
    weights = np.maximum.reduceat(each.weights, range(0, each.weights.shape[0], rows), axis=0)
    weights = np.maximum.reduceat(weights, range(0, each.weights.shape[1], columns), axis=1)
    shrunk = replace(
        each, weights=weights, query_tokens=each.query_tokens[::rows], key_tokens=each.key_tokens[::columns]
    )
    return shrunk, (rows, columns)
