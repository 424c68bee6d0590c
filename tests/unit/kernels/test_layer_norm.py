"""Native layer norm and its gradients against PyTorch in float64, and whom it is for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels import library
from dikkat.nn.layers import LayerNorm

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def tensors(*shape: int) -> list[Tensor]:
    """Rows far from zero, weight, bias, and the gradient of the output, in bfloat16."""
    generator = torch.Generator().manual_seed(sum(shape))
    sizes = (shape, shape[-1:], shape[-1:], shape)
    x, weight, bias, gradient = (torch.randn(size, generator=generator) for size in sizes)
    return [item.bfloat16() for item in (3.0 * x + 2.0, weight + 1.0, bias, gradient)]


def norm_of(weight: Tensor, bias: Tensor, eps: float) -> LayerNorm:
    """A layer with copies of these, which the kernel computes in training."""
    norm = LayerNorm(len(weight), eps=eps).bfloat16()
    with torch.no_grad():
        norm.weight.copy_(weight), norm.bias.copy_(bias)
    return norm


def is_native(output: Tensor) -> bool:
    return output.grad_fn is not None and output.grad_fn.name() == "_LayerNormBackward"


def gradients(norm: LayerNorm, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """The output and the gradients of rows, weight and bias."""
    inputs = x.detach().requires_grad_()
    output = norm(inputs)
    assert is_native(output)
    return [output, *torch.autograd.grad(output, (inputs, norm.weight, norm.bias), gradient)]


@needs_kernels
@pytest.mark.parametrize("shape", [(1, 16), (3, 5, 64), (700, 256), (33, 512), (0, 32)], ids=str)
def test_rows_and_gradients_are_those_of_pytorch_in_float64(shape: tuple[int, ...]) -> None:
    x, weight, bias, gradient = tensors(*shape)
    exact = [item.double().requires_grad_() for item in (x, weight, bias)]
    wanted = F.layer_norm(exact[0], shape[-1:], exact[1], exact[2], 1e-3)
    result = gradients(norm_of(weight, bias, 1e-3), x, gradient)
    pairs = zip(result, (wanted, *torch.autograd.grad(wanted, exact, gradient.double())), strict=True)
    for one, other in pairs:
        assert one.dtype == torch.bfloat16
        # half of the last of eight digits, and what float32 loses beside it
        assert bool(((one.double() - other).abs() <= other.abs() * 2**-8 + 2e-5 * max(1, shape[0])).all())


@needs_kernels
def test_the_number_of_threads_changes_no_bit() -> None:
    x, weight, bias, gradient = tensors(250, 96)
    norm, threads, result = norm_of(weight, bias, 1e-5), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            result.append(gradients(norm, x, gradient))
    finally:
        torch.set_num_threads(threads)
    for others in result[1:]:
        assert all(torch.equal(one, other) for one, other in zip(result[0], others, strict=True))


@needs_kernels
def test_rows_and_gradients_may_lie_anywhere() -> None:
    x, weight, bias, gradient = tensors(40, 32)
    norm = norm_of(weight, bias, 1e-5)
    for rows, back in ((x[::2], gradient[::2]), (x.view(2, 20, 32).transpose(0, 1), gradient[:1].expand(20, 2, 32))):
        dense = gradients(norm, rows.contiguous(), back.contiguous())
        assert all(torch.equal(one, other) for one, other in zip(gradients(norm, rows, back), dense, strict=True))


@needs_kernels
def test_it_is_for_training_in_bfloat16() -> None:
    x = torch.randn(4, 32)
    norm = LayerNorm(32)
    assert not is_native(norm(x)), "float32 is PyTorch's"
    assert is_native(norm.bfloat16()(x.bfloat16()))
    with torch.no_grad():
        assert norm(x.bfloat16()).grad_fn is None
    assert not is_native(LayerNorm(24).bfloat16()(torch.randn(4, 24).bfloat16())), "no whole vectors"
    assert not is_native(LayerNorm((4, 32)).bfloat16()(x.bfloat16())), "over two dimensions"
    assert is_native(norm.requires_grad_(False)(x.bfloat16().requires_grad_()))


@needs_kernels
def test_the_gradient_of_a_residual_sum_is_added_as_pytorch_adds_it() -> None:
    """Both are rounded before, and their sum after, the smallest numbers too."""
    x, weight, bias, gradient = tensors(250, 96)
    norm, inputs, scale = norm_of(weight, bias, 1e-5), x.requires_grad_(), torch.ones(250, 1).bfloat16()
    scale[100:] *= 2.0**-126
    alone, *_ = torch.autograd.grad(norm(inputs), inputs, scale * gradient)
    kept, normed = norm.branched(inputs)
    assert torch.equal(kept, x)
    other = scale * gradient.flip(0)
    (both,) = torch.autograd.grad((kept, normed), inputs, (other, scale * gradient))
    assert torch.equal(both, other + alone)
    kept, _ = norm.branched(inputs)
    assert torch.equal(torch.autograd.grad(kept, inputs, other)[0], other)
