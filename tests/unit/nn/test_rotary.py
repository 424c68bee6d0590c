"""Rotary positions against the rotation matrices of the paper, in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, to_numpy

from dikkat.nn.functional import fused_attention, fused_attention_with_weights
from dikkat.nn.rotary import RotaryPositions


def turned(x: Array, first: int) -> Array:
    """Each pair times its matrix [[cos, -sin], [sin, cos]] (Su et al. 2021, equation 15)."""
    result, width = np.empty_like(x), x.shape[-1]
    for index in range(x.shape[-2]):
        for j in range(width // 2):
            angle = (first + index) / 10000 ** (2 * j / width)
            matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            pair = slice(2 * j, 2 * j + 2)
            result[..., index, pair] = x[..., index, pair] @ matrix.T
    return result


@pytest.mark.parametrize("offset", [0, 7, 255, 3000])
@pytest.mark.parametrize("width", [2, 8, 10])
def test_each_pair_is_turned_by_its_angle(width: int, offset: int) -> None:
    x = torch.randn(2, 3, 4, width)
    result = RotaryPositions(width)(x, offset)
    np.testing.assert_allclose(to_numpy(result), turned(to_numpy(x), offset), rtol=0, atol=1e-5)


def test_places_are_turned_as_in_the_whole_sequence() -> None:
    """Beyond the first table too."""
    x, indices = torch.randn(2, 3, 4, 8), torch.tensor([[0, 2, 3, 9], [1, 5, 300, 301]])
    result = RotaryPositions(8)(x, position_ids=indices)
    for row in range(2):
        for column in range(4):
            alone = RotaryPositions(8)(x[row, None, :, column, None], int(indices[row, column]))
            torch.testing.assert_close(result[row, None, :, column, None], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [8, 20])
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("length", [5, 240])
def test_attention_turns_as_if_it_was_turned_before(dtype: torch.dtype, width: int, placed: bool, length: int) -> None:
    """To the bit, whichever path there is; and so do gradients, but for how often half precision rounds them."""
    positions = RotaryPositions(width)
    q, k, v = (torch.randn(2, 3, length, width, dtype=dtype, requires_grad=True) for _ in range(3))
    indices = torch.arange(0, 2 * length, 2).expand(2, length) if placed else None
    rotation = positions.rotation(q, 0 if placed else 3, indices)
    gradient, result = torch.randn(q.shape, dtype=dtype), []
    for query, key, turns in ((q, k, rotation), (rotation(q), rotation(k), None)):
        output = fused_attention(query, key, v, dropout=0.0, rotation=turns)
        read, weights = fused_attention_with_weights(query, key, v, rotation=turns)
        assert torch.equal(read, output)
        result.append((output, weights, *torch.autograd.grad(output, (q, k, v), gradient)))
    (output, weights, *gradients), (wanted, wanted_weights, *wanted_gradients) = result
    assert torch.equal(output, wanted)
    assert torch.equal(weights, wanted_weights)
    close = 2e-2 if dtype == torch.bfloat16 else 0.0
    for ours, right in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(ours, right, rtol=close, atol=close)


def test_products_depend_on_the_distance_only() -> None:
    positions, query, key = RotaryPositions(16), torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)
    for distance in (0, 1, 50):
        products = [
            (positions(query, start) * positions(key, start + distance)).sum().item() for start in (0, 9, 400, 1000)
        ]
        assert max(products) - min(products) < 1e-4
    assert abs((positions(query, 0) * positions(key, 3)).sum().item() - (query * key).sum().item()) > 1e-3


def test_lengths_stay_as_they_are_and_position_zero_is_not_turned() -> None:
    x = torch.randn(2, 2, 5, 8)
    result = RotaryPositions(8)(x)
    torch.testing.assert_close(result.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(result[..., 0, :], x[..., 0, :])
    assert RotaryPositions(8)(x.bfloat16()).dtype == torch.bfloat16
    assert not RotaryPositions(8).state_dict()


def test_positions_that_a_rotation_does_not_know_are_refused() -> None:
    q, longer = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 4, 8)
    rotation = RotaryPositions(8).rotation(q)
    for query, key in ((q, longer), (longer, longer)):
        with pytest.raises(ValueError, match=f"of 3 positions cannot turn {query.shape[2]} queries and 4 keys"):
            fused_attention(query, key, key, rotation=rotation)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match="rotary positions of head_dim = 8 cannot turn heads of width 4"):
        RotaryPositions(8)(torch.randn(1, 2, 3, 4))
    with pytest.raises(ValueError, match="rotary positions need an even head_dim, but head_dim is 5"):
        RotaryPositions(5)
