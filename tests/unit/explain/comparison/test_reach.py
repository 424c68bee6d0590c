"""Gradients: the field of a convolution, everything for the other two, and the whole matrix of derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.lessons.comparison.layers import KINDS, Kind, build_layer, reach, receptive_field


@pytest.mark.seed("C2")
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_a_convolution_reaches_its_field_and_no_further(layers: int, kernel: int) -> None:
    field = receptive_field(layers, kernel)
    for length in (field - 1, field, field + 3):
        result = reach("convolution", layers, length, 6, kernel=kernel, seed=0)
        outside = max(0, length - field)
        assert [size > 0 for size in result.sizes] == [False] * outside + [True] * (length - outside)
        assert (result.reached, result.earliest) == (min(field, length), outside + 1)


@pytest.mark.seed("C2")
@pytest.mark.parametrize(("length", "reached"), [(3, True), (4, False), (5, False)])
def test_one_convolution_of_three_loses_the_first_of_four(length: int, reached: bool) -> None:
    result = reach("convolution", 1, length, 8, kernel=3, seed=1)
    assert (result.sizes[0] > 0) is reached


@pytest.mark.seed("C2")
def test_two_convolutions_of_three_join_the_first_and_the_fifth() -> None:
    two = [reach("convolution", 2, length, 8, kernel=3, seed=1).sizes[0] for length in (5, 6)]
    assert two[0] > 0
    assert two[1] == 0


@pytest.mark.seed("C2")
@pytest.mark.parametrize("layers", [1, 2])
def test_attention_and_recurrence_reach_everything(layers: int) -> None:
    sizes: dict[Kind, tuple[float, ...]] = {}
    for kind in KINDS[1:]:
        result = reach(kind, layers, 40, 8, kernel=3, seed=0)
        assert (result.earliest, result.reached, result.length) == (1, 40, 40)
        sizes[kind] = result.sizes
    # through forty steps little is left; in one step the first input counts as any other
    assert sizes["recurrence"][0] < 1e-4 * sizes["recurrence"][-1]
    assert sizes["self-attention"][0] > 1e-2 * max(sizes["self-attention"])


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_norms_of_the_whole_matrix_of_derivatives(kind: Kind) -> None:
    result = reach(kind, 1, 5, 4, kernel=3, seed=2)
    layer = build_layer(kind, 4, kernel=3, seed=2).double()
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def last(rows: Tensor) -> Tensor:
        output: Tensor = layer(rows)[0, -1]
        return output

    # (D, 1, S, D) -> (D, S, D)
    derivatives = torch.autograd.functional.jacobian(last, x)[:, 0]
    torch.testing.assert_close(torch.tensor(result.sizes).double(), derivatives.norm(dim=(0, 2)))


def test_wide_outputs_are_followed_in_part() -> None:
    result = reach("convolution", 1, 3, 70, kernel=2, seed=0)
    layer = build_layer("convolution", 70, kernel=2, seed=0).double()
    weight = next(layer.parameters())
    # the derivative of a convolution is its kernel: (D outputs, D inputs, k)
    assert result.sizes[0] == 0
    assert result.sizes[1:] == pytest.approx(weight[:64].detach().norm(dim=(0, 1)).tolist())
