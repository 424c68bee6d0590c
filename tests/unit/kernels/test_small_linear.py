"""The products of small layers against the formula in float64, and what their bits do not depend on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels import library, linear
from dikkat.kernels.linear import is_small
from dikkat.kernels.linear import small_linear as applied
from dikkat.nn.layers import Linear

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


ALL = (True, True, True)


def of_input(gradient: Tensor, x: Tensor, weight: Tensor, rectified: Tensor | None) -> Tensor:
    """The gradient of the input alone."""
    result, *others = linear.backward(gradient, x, weight, rectified, (True, False, False))
    assert result is not None
    assert others == [None, None]
    return result


def inputs(rows: int, width: int, outputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input, weight, bias and gradient; the weight begins where a vector would not."""
    torch.manual_seed(1)
    weight = torch.randn(outputs * width + 1)[1:].view(outputs, width)
    return torch.randn(rows, width), weight, torch.randn(outputs), torch.randn(rows, outputs)


@pytest.mark.parametrize("rows", [0, 1, 5, 97, 300])
@pytest.mark.parametrize(("width", "outputs"), [(16, 16), (64, 192), (128, 48)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_layer_and_gradients_are_those_of_the_formula(
    rows: int, width: int, outputs: int, biased: bool, relu: bool
) -> None:
    x, weight, bias, gradient = inputs(rows, width, outputs)
    leaves = [item.requires_grad_() for item in ((x, weight, bias) if biased else (x, weight))]
    exact = [item.detach().double().requires_grad_() for item in leaves]
    assert is_small(x, weight, bias)
    output = applied(x, weight, bias if biased else None, relu=relu)
    wanted = F.linear(exact[0], exact[1], exact[2] if biased else None)
    wanted = wanted.relu() if relu else wanted
    result = torch.autograd.grad(output, leaves, gradient)
    expected = torch.autograd.grad(wanted, exact, gradient.double())
    for ours, right in zip((output, *result), (wanted, *expected), strict=True):
        torch.testing.assert_close(ours.double(), right, atol=1e-4, rtol=1e-5)


def test_a_row_has_the_same_bits_in_any_company() -> None:
    x, weight, bias, gradient = inputs(200, 64, 128)
    output = linear.forward(x, weight, bias, relu=True)
    of_x = of_input(gradient, x, weight, output)
    for some in (slice(0, 1), slice(3, 10), slice(50, 163)):
        assert torch.equal(linear.forward(x[some], weight, bias, relu=True), output[some])
        assert torch.equal(of_input(gradient[some], x[some], weight, output[some]), of_x[some])


def test_rectified_it_is_the_layer_and_its_relu_to_the_bit() -> None:
    x, weight, bias, gradient = inputs(300, 64, 128)
    x[7, 3] = float("nan")
    output, separate = linear.forward(x, weight, bias, relu=True), linear.forward(x, weight, bias)
    torch.testing.assert_close(output, separate.relu(), rtol=0, atol=0, equal_nan=True)
    flow = torch.where(output <= 0, 0.0, gradient)
    result = of_input(gradient, x, weight, output)
    assert torch.equal(result, of_input(flow, x, weight, None))
    x[7, 3] = 1.0
    all_three = linear.backward(gradient, x, weight, output, ALL)
    for ours, right in zip(all_three, linear.backward(flow, x, weight, None, ALL), strict=True):
        torch.testing.assert_close(ours, right, rtol=0, atol=0)


def test_threads_change_no_bit() -> None:
    x, weight, bias, gradient = inputs(500, 64, 48)
    before, runs = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            output = linear.forward(x, weight, bias, relu=True)
            runs.append((output, *linear.backward(gradient, x, weight, output, ALL)))
    finally:
        torch.set_num_threads(before)
    for run in runs:
        for first, other in zip(runs[0], run, strict=True):
            torch.testing.assert_close(other, first, rtol=0, atol=0)


def test_what_it_does_not_take() -> None:
    x, weight, bias, _ = inputs(20, 64, 64)
    assert not is_small(x, weight, bias)
    for wrong in (torch.randn(20, 64), torch.randn(64, 64).bfloat16(), torch.randn(512, 64)):
        assert not is_small(x, wrong[:, :20].requires_grad_(), None)
    assert not is_small(x.bfloat16(), torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True), None)
    assert not is_small(x, torch.randn(512, 64, requires_grad=True), None)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
@pytest.mark.parametrize("relu", [False, True])
def test_what_is_frozen_gets_no_gradient(frozen: str, relu: bool) -> None:
    x, weight, bias, gradient = inputs(30, 16, 32)
    leaf = (bias if frozen == "weight" else weight).requires_grad_()
    exact = leaf.detach().double().requires_grad_()
    (result,) = torch.autograd.grad(applied(x, weight, bias, relu=relu), leaf, gradient)
    arguments = (weight.double(), exact) if frozen == "weight" else (exact, bias.double())
    wanted = F.linear(x.double(), *arguments)
    (expected,) = torch.autograd.grad(wanted.relu() if relu else wanted, exact, gradient.double())
    torch.testing.assert_close(result.double(), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
def test_it_can_be_differentiated_twice(relu: bool) -> None:
    result = []
    for layer in (Linear(16, 16), torch.nn.Linear(16, 16)):
        x, weight, bias, _ = inputs(40, 16, 16)
        layer.weight.data, layer.bias.data = weight, bias
        x.requires_grad_()
        if isinstance(layer, Linear):
            output = layer(x[None], relu=relu)
        else:
            output = layer(x[None]).relu() if relu else layer(x[None])
        (first,) = torch.autograd.grad((output**3).sum(), x, create_graph=True)
        result.append(torch.autograd.grad((first**2).sum(), (x, layer.weight)))
    for ours, right in zip(*result, strict=True):
        torch.testing.assert_close(ours, right, atol=0, rtol=1e-3)
