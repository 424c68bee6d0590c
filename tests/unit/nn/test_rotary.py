"""Rotary positions against the rotation matrices of the paper, in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, to_numpy

from dikkat.native import kernels
from dikkat.nn.rotary import RotaryPositions


def turned(x: Array, first: int) -> Array:
    """Each pair times its matrix [[cos, -sin], [sin, cos]] (Su et al. 2021, equation 15)."""
    result, width = np.empty_like(x), x.shape[-1]
    for place in range(x.shape[-2]):
        for j in range(width // 2):
            angle = (first + place) / 10000 ** (2 * j / width)
            matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            pair = slice(2 * j, 2 * j + 2)
            result[..., place, pair] = x[..., place, pair] @ matrix.T
    return result


@pytest.mark.parametrize("offset", [0, 7, 255, 3000])
@pytest.mark.parametrize("width", [2, 8, 10])
def test_each_pair_is_turned_by_its_angle(width: int, offset: int) -> None:
    x = torch.randn(2, 3, 4, width)
    found = RotaryPositions(width)(x, offset)
    np.testing.assert_allclose(to_numpy(found), turned(to_numpy(x), offset), rtol=0, atol=1e-5)


def test_places_are_turned_as_in_the_whole_sequence() -> None:
    """Beyond the first table too."""
    x, places = torch.randn(2, 3, 4, 8), torch.tensor([[0, 2, 3, 9], [1, 5, 300, 301]])
    found = RotaryPositions(8)(x, places=places)
    for row in range(2):
        for column in range(4):
            alone = RotaryPositions(8)(x[row, None, :, column, None], int(places[row, column]))
            torch.testing.assert_close(found[row, None, :, column, None], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("natively", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [8, 20])
def test_the_first_of_packed_heads_are_turned(
    monkeypatch: pytest.MonkeyPatch, natively: bool, dtype: torch.dtype, width: int
) -> None:
    """And the gradient is turned back; the heads behind them, and theirs, are as they were."""
    if not natively:
        monkeypatch.setattr(kernels, "runs_natively", lambda *_: False)
    positions, heads = RotaryPositions(width), 3
    x, places = (
        torch.randn(2, 4, 5 * width, dtype=dtype, requires_grad=True),
        torch.tensor([[0, 2, 3, 9], [1, 5, 6, 7]]),
    )
    apart = x.detach().unflatten(-1, (5, width)).transpose(1, 2)
    for where in ((3, None), (0, places)):
        found = positions.turn_first(x, heads, *where)
        wanted = torch.cat((positions(apart[:, :heads], *where), apart[:, heads:]), dim=1)
        assert torch.equal(found, wanted.transpose(1, 2).flatten(2))
        (back,) = torch.autograd.grad(found, x, found.detach())
        close = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(back, x.detach(), rtol=close, atol=close)


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
    found = RotaryPositions(8)(x)
    torch.testing.assert_close(found.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(found[..., 0, :], x[..., 0, :])
    assert RotaryPositions(8)(x.bfloat16()).dtype == torch.bfloat16
    assert not RotaryPositions(8).state_dict()


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match="rotary positions of head_dim = 8 cannot turn heads of width 4"):
        RotaryPositions(8)(torch.randn(1, 2, 3, 4))
    with pytest.raises(ValueError, match="rotary positions need an even head_dim, but head_dim is 5"):
        RotaryPositions(5)
