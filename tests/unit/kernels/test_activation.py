"""Native activations and their gradients against PyTorch in float64, and whom they are for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.kernels import library
from dikkat.kernels.activation import activate
from dikkat.nn.layers import FeedForward, GatedFeedForward

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")
NAMES = ("gelu", "gelu_tanh", "silu")
SHAPES = [(1,), (0, 16), (3, 5, 64), (9, 1000), (2, 1024)]


def numbers(*shape: int) -> tuple[Tensor, Tensor]:
    """Numbers of all sizes, the largest among them, and the gradient of what becomes of them, in bfloat16."""
    generator = torch.Generator().manual_seed(sum(shape))
    x, gradient = (torch.randn(shape, generator=generator) for _ in range(2))
    x = (3.0 * x).flatten()
    special = torch.tensor([0.0, -0.0, 1e30, -1e30, 30.0, -30.0, 1e-30, -5.5])[: len(x)]
    x[: len(special)] = special
    return x.view(shape).bfloat16(), gradient.bfloat16()


def with_gradient(name: str, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    inputs = x.detach().requires_grad_()
    output = activate(name, inputs)
    assert output.grad_fn is not None
    assert output.grad_fn.name() == "_ActivationBackward"
    return output.detach(), torch.autograd.grad(output, inputs, gradient)[0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_gradients_are_those_of_pytorch_in_float64(name: str, shape: tuple[int, ...]) -> None:
    x, gradient = numbers(*shape)
    exact = x.double().requires_grad_()
    output = activate(name, exact)
    wanted = output.detach(), torch.autograd.grad(output, exact, gradient.double())[0]
    for one, other in zip(with_gradient(name, x, gradient), wanted, strict=True):
        assert one.dtype == torch.bfloat16
        # half of the last of eight digits, and what float32 loses beside it
        assert bool(((one.double() - other).abs() <= other.abs() * 2**-8 + 2e-6).all())


@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_nan(name: str) -> None:
    x = torch.tensor([torch.nan, 1.0]).bfloat16()
    for result in with_gradient(name, x, torch.ones_like(x)):
        assert result.isnan().tolist() == [True, False]


def test_the_number_of_threads_changes_no_bit() -> None:
    (x, gradient), threads, result = numbers(77, 333), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            result.append(with_gradient("gelu", x, gradient))
    finally:
        torch.set_num_threads(threads)
    for others in result[1:]:
        assert all(torch.equal(one, other) for one, other in zip(result[0], others, strict=True))


def test_numbers_and_gradients_may_lie_anywhere() -> None:
    x, gradient = numbers(40, 32)
    for rows, back in ((x[:, ::2], gradient[:, 1::2]), (x.t(), gradient[:1, :1].expand(32, 40))):
        dense = with_gradient("silu", rows.contiguous(), back.contiguous())
        assert all(torch.equal(one, other) for one, other in zip(with_gradient("silu", rows, back), dense, strict=True))


def test_it_is_for_bfloat16(without_kernels: None) -> None:
    x = torch.randn(4, 32).requires_grad_()
    assert activate("gelu", x).grad_fn.name() == "GeluBackward0"  # type: ignore[union-attr]
    assert activate("gelu", x.bfloat16()).grad_fn.name() == "GeluBackward0"  # type: ignore[union-attr]


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu", "geglu", "geglu_tanh", "swiglu"])
def test_feed_forward_networks_use_it(activation: str) -> None:
    kind = FeedForward if activation in NAMES else GatedFeedForward
    network = kind(32, 64, activation=activation).bfloat16()
    names, waiting = set(), [network(torch.randn(4, 32).bfloat16()).grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name())
            waiting += [before for before, _ in node.next_functions]
    assert "_ActivationBackward" in names


def test_it_is_differentiable_once() -> None:
    x = torch.randn(4, 32).bfloat16().requires_grad_()
    (gradient,) = torch.autograd.grad(activate("gelu", x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
