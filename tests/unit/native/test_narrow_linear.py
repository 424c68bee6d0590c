"""The products of narrow layers against the formula in float64, and what their bits do not depend on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.native import library, narrow_linear
from dikkat.nn.few_rows import Projection
from dikkat.nn.narrow import learns_narrowly
from dikkat.nn.narrow import narrow_linear as applied

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def inputs(rows: int, width: int, outputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input, weight, bias and gradient; the weight begins where a vector would not."""
    torch.manual_seed(1)
    weight = torch.randn(outputs * width + 1)[1:].view(outputs, width)
    return torch.randn(rows, width), weight, torch.randn(outputs), torch.randn(rows, outputs)


@pytest.mark.parametrize("rows", [0, 1, 5, 97, 300])
@pytest.mark.parametrize(("width", "outputs"), [(16, 16), (64, 192), (128, 48)])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_and_gradients_are_those_of_the_formula(rows: int, width: int, outputs: int, biased: bool) -> None:
    x, weight, bias, gradient = inputs(rows, width, outputs)
    leaves = [each.requires_grad_() for each in ((x, weight, bias) if biased else (x, weight))]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    assert learns_narrowly(x, weight, bias)
    output = applied(x, weight, bias if biased else None)
    wanted = F.linear(exact[0], exact[1], exact[2] if biased else None)
    found = torch.autograd.grad(output, leaves, gradient)
    expected = torch.autograd.grad(wanted, exact, gradient.double())
    for ours, right in zip((output, *found), (wanted, *expected), strict=True):
        torch.testing.assert_close(ours.double(), right, atol=1e-4, rtol=1e-5)


def test_a_row_has_the_same_bits_in_any_company() -> None:
    x, weight, bias, gradient = inputs(200, 64, 128)
    output = narrow_linear.linear(x, weight, bias)
    of_x = narrow_linear.input_gradient(gradient, x, weight)
    for some in (slice(0, 1), slice(3, 10), slice(50, 163)):
        assert torch.equal(narrow_linear.linear(x[some], weight, bias), output[some])
        assert torch.equal(narrow_linear.input_gradient(gradient[some], x[some], weight), of_x[some])


def test_threads_change_no_bit() -> None:
    x, weight, bias, gradient = inputs(500, 64, 48)
    before, runs = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            of_weight, of_bias = narrow_linear.weight_gradient(gradient, x, weight, with_bias=True)
            assert of_bias is not None
            runs.append((of_weight, of_bias, narrow_linear.linear(x, weight, bias)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(first, other) for run in runs for first, other in zip(runs[0], run, strict=True))


def test_what_it_does_not_take() -> None:
    x, weight, bias, _ = inputs(20, 64, 64)
    assert not learns_narrowly(x, weight, bias)
    for wrong in (torch.randn(20, 64), torch.randn(64, 64).bfloat16(), torch.randn(512, 64)):
        assert not learns_narrowly(x, wrong[:, :20].requires_grad_(), None)
    assert not learns_narrowly(x.bfloat16(), torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True), None)
    assert not learns_narrowly(x, torch.randn(512, 64, requires_grad=True), None)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_what_is_frozen_gets_no_gradient(frozen: str) -> None:
    x, weight, bias, gradient = inputs(30, 16, 32)
    leaf = (bias if frozen == "weight" else weight).requires_grad_()
    exact = leaf.detach().double().requires_grad_()
    (found,) = torch.autograd.grad(applied(x, weight, bias), leaf, gradient)
    given = (weight.double(), exact) if frozen == "weight" else (exact, bias.double())
    (expected,) = torch.autograd.grad(F.linear(x.double(), *given), exact, gradient.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)


def test_it_can_be_differentiated_twice() -> None:
    found = []
    for layer in (Projection(16, 16), torch.nn.Linear(16, 16)):
        x, weight, bias, _ = inputs(40, 16, 16)
        layer.weight.data, layer.bias.data = weight, bias
        x.requires_grad_()
        (first,) = torch.autograd.grad((layer(x[None]) ** 3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad((first**2).sum(), (x, layer.weight)))
    for ours, right in zip(*found, strict=True):
        torch.testing.assert_close(ours, right, atol=0, rtol=1e-3)
