"""Triton kernels against float64: on a GPU where there is one, else interpreted on a processor (pip install triton)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat import kernels
from dikkat.kernels import attention
from dikkat.kernels.attention import MAX_LENGTH_ON_GPU, soft_attention
from dikkat.kernels.cross_entropy import smoothed_cross_entropy, smoothed_softmax
from dikkat.kernels.dropout import drop_threshold, dropout, mask_of
from dikkat.kernels.embedding import embedding_rows
from dikkat.kernels.gpu import choice
from dikkat.kernels.gradient_buffer import attach_buffer
from dikkat.kernels.layer_norm import branched_layer_norm
from dikkat.kernels.linear import linear, split_heads
from dikkat.kernels.random_bits import bits_of_seed, random_seed

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not HAS_GPU and find_spec("triton") is None, reason="neither a CUDA device nor Triton, which interprets kernels"
    ),
]

TYPES = [torch.float32, torch.bfloat16]
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 2**-8 if HAS_GPU else 2**-7}
"""Of one rounding, relative to the largest number around; the interpreter cuts what bfloat16 cannot hold."""
ATTENDED = torch.bfloat16 if HAS_GPU else torch.float32
"""The interpreter multiplies no bfloat16."""


@pytest.fixture(autouse=True)
def _takes_this_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # also where the suite runs without the kernels of a processor
    monkeypatch.delenv("DIKKAT_NATIVE", raising=False)
    monkeypatch.setattr(choice, "DEVICE", DEVICE)
    monkeypatch.setattr(attention, "TYPE_ON_GPU", ATTENDED)
    if not HAS_GPU:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    choice._failure.cache_clear()
    yield
    choice._failure.cache_clear()


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)


def check(result: Tensor, wanted: Tensor, factor: float = 1.0) -> None:
    """The result is in its own type as near to float64 as a few roundings allow."""
    most = factor * TOLERANCES[result.dtype] * max(1.0, float(wanted.detach().abs().max()))
    assert result.shape == wanted.shape
    assert float((result.detach().double() - wanted.detach()).abs().max()) <= most


def gradients(
    compute: Callable[..., Tensor], tensors: list[Tensor], gradient: Tensor, name: str = ""
) -> tuple[Tensor, ...]:
    """The output and the gradients of all tensors; `name` is the autograd function that must have been taken."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    output = compute(*inputs)
    assert output.grad_fn is not None
    assert name in _functions(output.grad_fn)
    return output.detach(), *torch.autograd.grad(output, inputs, gradient)


def _functions(last: torch.autograd.graph.Node | None) -> str:
    """The names of the functions behind an output, in one text."""
    if last is None:
        return ""
    return " ".join([last.name(), *(_functions(node) for node, _ in last.next_functions)])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("rows", "entries"), [(1, 2), (5, 100), (3, 4096), (4, 9000)])
def test_loss_and_gradient_of_logits(rows: int, entries: int, dtype: torch.dtype) -> None:
    logits = numbers(rows, entries, dtype=dtype).mul_(5)
    targets = torch.arange(rows, device=DEVICE) * (entries // rows)
    exact = logits.double().requires_grad_()
    wanted = F.cross_entropy(exact, targets, label_smoothing=0.1, reduction="none")
    (wanted_gradient,) = torch.autograd.grad(wanted.sum(), exact)
    plain = F.cross_entropy(logits.double(), targets, reduction="none")
    loss, likelihood = smoothed_softmax(logits, targets, 0.1)
    check(loss, wanted)
    check(likelihood, plain)
    check(logits, wanted_gradient)


def test_a_target_outside_of_the_vocabulary_gives_no_number() -> None:
    targets = torch.tensor([3, -1, 7], device=DEVICE)
    loss, _ = smoothed_softmax(numbers(3, 7, dtype=torch.float32), targets, 0.1)
    assert loss.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_cross_entropy_with_its_gradients(dtype: torch.dtype) -> None:
    hidden, weight = numbers(70, 16, dtype=dtype), numbers(50, 16, dtype=dtype)
    targets = torch.arange(70, device=DEVICE) % 50
    exact = [tensor.double().requires_grad_() for tensor in (hidden, weight)]
    wanted = F.cross_entropy(exact[0] @ exact[1].t(), targets, label_smoothing=0.1, reduction="sum")
    result = gradients(
        lambda hidden, weight: smoothed_cross_entropy(hidden, weight, targets, 0.1)[0],
        [hidden, weight],
        torch.ones((), device=DEVICE),
    )
    for one, other in zip(result, (wanted, *torch.autograd.grad(wanted, exact)), strict=True):
        # logits are rounded before the softmax
        check(one, other.detach(), 4.0 if one.dim() else 100.0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 16), (3, 5, 64), (700, 40), (33, 512), (9, 1000), (0, 32)], ids=str)
def test_layer_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, gradient = numbers(*shape, dtype=dtype).mul_(3).add_(2), numbers(*shape, dtype=dtype, seed=1)
    weight, bias = numbers(shape[-1], dtype=dtype).add_(1), numbers(shape[-1], dtype=dtype, seed=1)
    exact = [tensor.double() for tensor in (x, weight, bias)]
    wanted = gradients(lambda x, w, b: F.layer_norm(x, shape[-1:], w, b, 1e-3), exact, gradient.double())
    result = gradients(lambda x, w, b: branched_layer_norm(x, w, b, 1e-3)[1], [x, weight, bias], gradient, "_LayerNorm")
    for one, other in zip(result, wanted, strict=True):
        if other.numel():
            check(one, other)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("entries", [1, 63, 5000])
def test_dropout_has_the_mask_of_a_processor(entries: int, dtype: torch.dtype) -> None:
    x, residual, gradient = (numbers(entries, dtype=dtype, seed=seed) for seed in range(3))
    for seed in (3, 4):
        torch.manual_seed(seed)
        mask = mask_of(bits_of_seed(random_seed(), torch.empty(entries)), drop_threshold(0.3), torch.float64).to(DEVICE)
        torch.manual_seed(seed)
        output, of_x, of_residual = gradients(lambda x, y: dropout(x, 0.3, y), [x, residual], gradient, "_AddDropped")
        check(output, residual.double() + x.double() * mask)
        check(of_x, gradient.double() * mask)
        assert torch.equal(of_residual, gradient)
        torch.manual_seed(seed)
        check(dropout(x, 0.3), x.double() * mask)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_a_linear_layer(relu: bool, dtype: torch.dtype) -> None:
    x, weight, bias = numbers(2, 150, 24, dtype=dtype), numbers(200, 24, dtype=dtype), numbers(200, dtype=dtype)
    gradient = numbers(2, 150, 200, dtype=dtype, seed=1)
    result = gradients(lambda *layer: linear(*layer, relu=relu), [x, weight, bias], gradient, "_TrainedLinear")
    exact = [tensor.double() for tensor in (x, weight, bias)]
    open_entries = (result[0] > 0) if relu else torch.ones_like(result[0])
    wanted = gradients(F.linear, exact, gradient.double() * open_entries)
    check(result[0], wanted[0].relu() if relu else wanted[0])
    for one, other in zip(result[1:], wanted[1:], strict=True):
        check(one, other, 2.0)


def test_rows_of_a_linear_layer_write_their_gradients_to_the_buffers() -> None:
    x, weight, bias = (numbers(*shape, dtype=torch.float32).requires_grad_() for shape in ((9, 8), (12, 8), (12,)))
    buffers = [attach_buffer(tensor, torch.full_like(tensor, 9.0)) for tensor in (weight, bias)]
    for buffer in buffers:
        buffer.open()
    output = sum(linear(x, weight, bias, rows=rows).square().sum() for rows in (slice(4), slice(4, 10)))
    assert isinstance(output, Tensor)
    outside = torch.autograd.grad(output, (weight, bias), allow_unused=True)
    exact = [tensor.detach().double().requires_grad_() for tensor in (weight, bias)]
    wanted = F.linear(x.double(), exact[0][:10], exact[1][:10]).square().sum()
    for buffer, found, other in zip(buffers, outside, torch.autograd.grad(wanted, exact), strict=True):
        buffer.close(None)
        assert found is None or not found.any()
        check(buffer.memory, other)


SHAPES = [(2, 3, 8), (7, 7, 24), (24, 31, 64), (40, 40, 24), (65, 128, 64), (128, 128, 64)]


@pytest.mark.parametrize(("queries", "keys", "width"), SHAPES)
def test_attention(queries: int, keys: int, width: int) -> None:
    batch, heads, beta = 2, 3, 0.7 / width**0.5
    wide = heads * width
    x, y = numbers(batch, queries, wide, dtype=ATTENDED), numbers(batch, keys, 2 * wide, dtype=ATTENDED)
    gradient = numbers(batch, queries, wide, dtype=ATTENDED, seed=1)
    mask = numbers(batch, 1, queries, keys, dtype=torch.float32) > -0.5
    mask[1, 0, 0] = False

    def attend(x: Tensor, y: Tensor) -> Tensor:
        q, k, v = *split_heads(x, [heads], width), *split_heads(y, [heads, heads], width)
        return soft_attention(q, k, v, mask, beta)[0].transpose(1, 2).flatten(2)

    def exact(x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (heads, width)).transpose(1, 2) for part in (x, *y.chunk(2, -1)))
        scores = (beta * q @ k.mT).masked_fill(~mask, -1e300)
        weights = scores.softmax(-1) * mask.any(-1, keepdim=True)
        return (weights @ v).transpose(1, 2).flatten(2)

    result = gradients(attend, [x, y], gradient, "_GpuAttention")
    wanted = gradients(exact, [x.double(), y.double()], gradient.double())
    assert not result[0][1, 0].any()
    for one, other in zip(result, wanted, strict=True):
        check(one, other, 2.0)


def test_attention_without_a_mask_of_one_projection() -> None:
    heads, width = 2, 16
    x = numbers(3, 20, 3 * heads * width, dtype=ATTENDED)
    gradient = numbers(3, heads, 20, width, dtype=ATTENDED, seed=1)

    def attend(x: Tensor) -> Tensor:
        q, k, v = split_heads(x, 3 * [heads], width)
        return soft_attention(q, k, v, None, 0.3)[0]

    def exact(x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (heads, width)).transpose(1, 2) for part in x.chunk(3, -1))
        return (0.3 * q @ k.mT).softmax(-1) @ v

    result = gradients(attend, [x], gradient, "_GpuAttention")
    for one, other in zip(result, gradients(exact, [x.double()], gradient.double()), strict=True):
        check(one, other, 2.0)


@pytest.mark.parametrize("length", [MAX_LENGTH_ON_GPU, MAX_LENGTH_ON_GPU + 1])
def test_longer_sequences_are_not_taken(length: int) -> None:
    query = numbers(1, length, 2, 16, dtype=ATTENDED).transpose(1, 2).requires_grad_()
    output, _ = soft_attention(query, query, query, None, 0.25)
    assert ("_GpuAttention" in _functions(output.grad_fn)) is (length == MAX_LENGTH_ON_GPU)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rows_of_an_embedding(dtype: torch.dtype) -> None:
    weight, tokens = numbers(30, 16, dtype=dtype), torch.arange(6000, device=DEVICE).square() % 29
    gradient = numbers(6000, 16, dtype=dtype, seed=1)
    runs = [gradients(lambda rows: embedding_rows(rows, tokens), [weight], gradient) for _ in range(2)]
    wanted = torch.zeros(30, 16, dtype=torch.float64, device=DEVICE).index_add_(0, tokens, gradient.double())
    check(runs[0][1], wanted)
    assert torch.equal(runs[0][1], runs[1][1])


def test_every_run_has_the_same_bits() -> None:
    x, gradient = numbers(800, 96, dtype=ATTENDED), numbers(800, 96, dtype=ATTENDED, seed=1)
    weight, bias = numbers(96, dtype=ATTENDED), numbers(96, dtype=ATTENDED, seed=1)
    matrix = numbers(96, 96, dtype=ATTENDED)

    def compute(x: Tensor, weight: Tensor, bias: Tensor, matrix: Tensor) -> Tensor:
        normal = linear(branched_layer_norm(x, weight, bias, 1e-5)[1], matrix, bias, relu=True)
        heads = normal.view(20, 40, 4, 24).transpose(1, 2)
        return soft_attention(heads, heads, heads, None, 0.2)[0].transpose(1, 2).reshape(x.shape)

    runs = [gradients(compute, [x, weight, bias, matrix], gradient) for _ in range(3 if HAS_GPU else 2)]
    for before, after in pairwise(runs):
        assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_every_kernel_can_be_started_once() -> None:
    from dikkat.kernels.gpu.probe import launch_all

    launch_all(torch.device(DEVICE), ATTENDED)


def test_pytorch_is_taken_where_it_is_asked_for() -> None:
    x = numbers(4, 16, dtype=torch.float32)
    assert choice.runs_triton(x)
    with kernels.use("torch"):
        assert not choice.runs_triton(x)
    assert not choice.runs_triton(x, x.bfloat16())
    assert not choice.runs_triton(x.double())
