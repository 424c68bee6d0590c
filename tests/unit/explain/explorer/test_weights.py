"""Weights packed to bytes, read back as the comment of the module says they are stored."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from dikkat.explain.explorer.document import KEPT, Weights, packed, packed_bytes


def unpacked(found: dict[str, Any]) -> Weights:
    """(H, T, S), by the description of the format alone."""
    heads, queries, keys = found["shape"]
    values = (np.frombuffer(base64.b64decode(found["weights"]), np.uint8) / 255.0) ** 2
    if "keys" not in found:
        return values.reshape(heads, queries, keys).astype(np.float32)
    indices = np.frombuffer(base64.b64decode(found["keys"]), "<u2").reshape(heads, queries, -1).astype(np.int64)
    whole = np.zeros((heads, queries, keys), dtype=np.float32)
    np.put_along_axis(whole, indices, values.reshape(indices.shape).astype(np.float32), axis=-1)
    return whole


def rows(*shape: int) -> Weights:
    weights = np.random.default_rng(3).dirichlet(np.full(shape[-1], 0.1), size=shape[:-1])
    return weights.astype(np.float32)


def test_a_weight_is_read_back_within_the_stated_error() -> None:
    weights = rows(2, 7, 9)
    error = np.abs(unpacked(packed(weights, 320)) - weights)
    assert (error <= np.sqrt(weights) / 255 + 1 / 510**2 + 1e-7).all()
    assert error.max() <= 0.004


def test_zero_and_one_are_exact() -> None:
    weights = np.eye(4, dtype=np.float32)[None]
    assert (unpacked(packed(weights, 320)) == weights).all()


def test_of_a_long_row_the_largest_stay_at_their_places() -> None:
    weights = rows(2, 5, 700)
    result = packed(weights, 40)
    kept = unpacked(result)
    assert ((kept > 0).sum(axis=-1) <= KEPT).all()
    largest = np.argsort(-weights, axis=-1)[..., :KEPT]
    np.testing.assert_allclose(
        np.take_along_axis(kept, largest, -1), np.take_along_axis(weights, largest, -1), atol=0.004
    )
    assert len(base64.b64decode(result["keys"])) == 2 * 2 * 5 * KEPT


@pytest.mark.parametrize("shape", [(2, 5, 40), (2, 5, 41)])
def test_the_size_is_foreseen(shape: tuple[int, int, int]) -> None:
    result = packed(rows(*shape), 40)
    length = sum(len(base64.b64decode(result[part])) for part in ("weights", "keys") if part in result)
    assert length == packed_bytes(shape, 40)


@pytest.mark.parametrize(
    "weights", [np.full((1, 1, 2), 1.5), np.full((1, 1, 2), -0.1), np.ones((2, 2)), np.ones((1, 0, 2))]
)
def test_what_are_no_weights_is_refused(weights: Weights) -> None:
    with pytest.raises(ValueError, match=r"weights \(H, T, S\) in \[0, 1\]"):
        packed(weights.astype(np.float32), 320)
