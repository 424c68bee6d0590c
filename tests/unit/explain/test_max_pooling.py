"""Large maps in fewer cells: no strong link may disappear."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.plots import max_pooled


def some_map(rows: int, columns: int) -> AttentionMap:
    weights = np.random.default_rng(1).random((rows, columns)).astype(np.float32)
    queries, keys = (tuple(f"{axis}{index}" for index in range(n)) for axis, n in (("q", rows), ("k", columns)))
    return AttentionMap(weights, queries, keys, "decoder", 1, 2, "cross")


@pytest.mark.parametrize(("rows", "columns", "tile"), [(7, 5, (2, 2)), (4, 9, (1, 3)), (13, 4, (4, 1)), (1, 8, (1, 2))])
def test_a_tile_shows_its_largest_weight(rows: int, columns: int, tile: tuple[int, int]) -> None:
    whole = some_map(rows, columns)
    result, size = max_pooled(whole, 4)
    assert size == tile
    height, width = tile
    expected = [
        [whole.weights[row : row + height, column : column + width].max() for column in range(0, columns, width)]
        for row in range(0, rows, height)
    ]
    assert np.array_equal(result.weights, np.array(expected))
    assert max(result.weights.shape) <= 4
    assert result.query_tokens == whole.query_tokens[::height]
    assert result.key_tokens == whole.key_tokens[::width]
    assert (result.stack, result.layer, result.head, result.kind) == ("decoder", 1, 2, "cross")


@pytest.mark.parametrize("shape", [(4, 4), (1, 3), (0, 2)])
def test_what_fits_is_left_alone(shape: tuple[int, int]) -> None:
    whole = some_map(*shape)
    result, size = max_pooled(whole, 4)
    assert result is whole
    assert size == (1, 1)
