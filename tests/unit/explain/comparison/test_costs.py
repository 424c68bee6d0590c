"""The formulas, against the operations that PyTorch's own counter sees and against walks from position to position."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dikkat.kernels import batch_invariant
from dikkat.lessons.comparison.layers import (
    FORMULAS,
    KINDS,
    Kind,
    Recurrence,
    build_layer,
    cost,
    costs,
    layers_to_join,
    receptive_field,
)
from dikkat.nn.functional import attention
from dikkat.nn.multi_head_attention import MultiHeadAttention

SIZES = [(16, 8, 2), (40, 8, 3), (17, 24, 5)]


@pytest.fixture(autouse=True)
def no_rows_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """What short sequences are lengthened by is no cost of attention; with many threads these are short."""
    monkeypatch.setattr(batch_invariant, "min_rows", lambda: 0)


def multiply_adds(module: nn.Module, x: Tensor) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(x)
    assert counter.get_total_flops() % 2 == 0
    return counter.get_total_flops() // 2


@pytest.mark.seed("C2", "F26")
@pytest.mark.usefixtures("without_kernels")  # the counter sees PyTorch's products only
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "width", "kernel"), SIZES)
def test_operations_with_projections_are_those_of_the_layer(kind: Kind, length: int, width: int, kernel: int) -> None:
    layer = build_layer(kind, width, kernel=kernel, seed=0)
    counted = multiply_adds(layer, torch.randn(1, length, width))
    assert counted == cost(kind, length, width, kernel=kernel).with_projections


@pytest.mark.seed("F26")
@pytest.mark.parametrize(("length", "width", "kernel"), SIZES)
def test_what_is_left_without_the_projections(length: int, width: int, kernel: int) -> None:
    """Attention without them is scores and weighted values; a recurrence without them is what depends on the state."""
    result = costs(length, width, kernel=kernel)
    x = torch.randn(1, 1, length, width)
    with FlopCounterMode(display=False) as counter:
        attention(x, x, x)
    assert counter.get_total_flops() == 2 * result["self-attention"].without_projections
    layer = build_layer("self-attention", width, kernel=kernel, seed=0)
    assert isinstance(layer, MultiHeadAttention)
    projections = multiply_adds(layer.in_projection, x) + multiply_adds(layer.out_projection, x)
    both = result["self-attention"]
    assert both.with_projections - both.without_projections == projections == 4 * length * width**2

    recurrence = build_layer("recurrence", width, kernel=kernel, seed=0)
    assert isinstance(recurrence, Recurrence)
    with FlopCounterMode(display=False) as counter:
        nn.functional.linear(x, recurrence.cell.get_parameter("weight_ih_l0"))
    with_inputs = multiply_adds(recurrence, x[0])
    assert with_inputs - counter.get_total_flops() // 2 == result["recurrence"].without_projections
    assert result["convolution"].without_projections == result["convolution"].with_projections


@pytest.mark.seed("F26")
def test_projections_dominate_while_n_is_below_twice_d() -> None:
    for width in (8, 64):
        for length in (2 * width - 1, 2 * width, 2 * width + 1):
            result = cost("self-attention", length, width, kernel=3)
            projections = result.with_projections - result.without_projections
            assert (projections > result.without_projections) == (length < 2 * width)


def positions_seen(layers: int, kernel: int, length: int) -> int:
    """Inputs from which the last output can be reached in `layers` steps of 0 ... k-1 positions to the right."""
    seen = {length}
    for _ in range(layers):
        seen = {position - step for position in seen for step in range(kernel) if position - step >= 1}
    return len(seen)


@pytest.mark.seed("C2")
@pytest.mark.parametrize("kernel", [2, 3, 4, 7])
def test_path_lengths_are_those_of_the_shortest_walk(kernel: int) -> None:
    for length in range(1, 40):
        shortest = next(layers for layers in range(1, 50) if positions_seen(layers, kernel, length) == length)
        assert layers_to_join(length, kernel) == shortest
    for layers in range(1, 5):
        assert positions_seen(layers, kernel, 99) == receptive_field(layers, kernel)


@pytest.mark.seed("C2")
def test_the_published_row() -> None:
    """k = 3 and two layers join the first and the fifth of five inputs; the three orders are those of the paper."""
    assert receptive_field(2, 3) == 5
    result = costs(5, 4, kernel=3)
    assert {kind: (item.sequential_steps, item.path_length) for kind, item in result.items()} == {
        "convolution": (1, 2),
        "recurrence": (5, 5),
        "self-attention": (1, 1),
    }
    assert {kind: item.order for kind, item in FORMULAS.items()} == {
        "convolution": "k n d², 1, n/k",
        "recurrence": "n d², n, n",
        "self-attention": "n² d, 1, 1",
    }


def test_the_written_formulas_are_the_computed_ones() -> None:
    """Read as Python, with the powers and products written out."""
    n, d, k = 96, 40, 5
    for kind, result in costs(n, d, kernel=k).items():
        written = FORMULAS[kind]
        for text, number in (
            (written.without_projections, result.without_projections),
            (written.with_projections, result.with_projections),
            (written.sequential_steps, result.sequential_steps),
        ):
            code = text.replace("²", "**2").replace(" + ", "+").replace(" ", "*")
            assert eval(code, {"n": n, "d": d, "k": k}) == number
