"""Every native kernel against the formula in float64, and against its PyTorch twin."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from dikkat import kernels
from dikkat.kernels import attention, calls, library
from dikkat.kernels import attention as attention_calls
from dikkat.kernels.attention import AttentionInputs, attention_backward, attention_forward, soft_attention
from dikkat.kernels.calls import runs_native
from dikkat.kernels.cross_entropy import smoothed_softmax
from dikkat.kernels.dropout import add_dropped, drop_threshold, mask_of
from dikkat.kernels.random_bits import bits_of_seed, random_bits
from dikkat.nn.layers import Dropout
from dikkat.nn.rotary import RotaryPositions

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
DTYPES = tuple(TOLERANCE)
SHAPES = [(3, 4, 7, 9, 64, 64), (2, 2, 5, 5, 12, 20), (1, 1, 1, 33, 8, 8), (2, 3, 21, 16, 16, 5), (1, 2, 4, 1, 1, 1)]
# more queries than are computed together, at few keys and at many
SHAPES += [(2, 2, 250, 40, 16, 12), (1, 1, 50, 6000, 8, 8)]
# more products than pay in tiles, where there are tiles; none of the sizes fills one
SHAPES += [(2, 2, 70, 33, 64, 64), (1, 2, 33, 100, 40, 20), (2, 1, 113, 97, 7, 49)]

BACKENDS: tuple[kernels.Backend, ...] = ("native", "torch")
needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def formula(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, beta: float, kept: Tensor) -> Tensor:
    scores = (query.double() @ key.double().transpose(-2, -1) * beta).masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0) * kept.double()
    return weights @ value.double()


def inputs(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 1) -> tuple[list[Tensor], Tensor]:
    """Query, key, value and the gradient of the output, as heads cut out of packed rows; a mask with one empty row."""
    torch.manual_seed(seed)
    batch, heads, queries, keys, width, value_width = shape
    sizes = ((queries, width), (keys, width), (keys, value_width), (queries, value_width))
    tensors = [torch.randn(batch, n, heads, size).to(dtype).transpose(1, 2) for n, size in sizes]
    mask = torch.rand(batch, 1, queries, keys) > 0.3
    mask[0, 0, 0] = False
    return tensors, mask


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("keep", [False, True])
def test_attention_and_its_gradients_are_those_of_the_formula(
    shape: tuple[int, ...], dtype: torch.dtype, probability: float, keep: bool
) -> None:
    (query, key, value, gradient), mask = inputs(shape, dtype)
    bits = random_bits(torch.empty(*shape[:4])) if probability else None
    threshold = drop_threshold(probability)
    kept = torch.ones(shape[:4]) if bits is None else mask_of(bits, threshold, torch.float64)
    exact = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    expected = formula(exact[0], exact[1], exact[2], mask, 0.3, kept)
    expected_gradients = torch.autograd.grad(expected, exact, gradient.double())

    output, weights = attention_forward(
        AttentionInputs(query, key, value, mask, 0.3, bits, threshold), keep_weights=keep
    )
    result = attention_backward(gradient, AttentionInputs(query, key, value, mask, 0.3, bits, threshold), weights)

    assert (weights is not None) == keep
    assert not output[0, :, 0].any()
    for ours, wanted in zip((output, *result), (expected, *expected_gradients), strict=True):
        assert ours.shape == wanted.shape
        assert ours.dtype == dtype
        scale = max(1.0, float(wanted.detach().abs().max()))
        assert float((ours.double() - wanted.detach()).abs().max()) <= TOLERANCE[dtype] * scale


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [6, 205])
@pytest.mark.parametrize("mask", ["none", "lengths", "causal", "nothing"])
def test_masks_of_every_shape(mask: str, size: int, dtype: torch.dtype) -> None:
    """What no query of a block sees is left out; weights that were not kept lead to the same bits."""
    (query, key, value, gradient), _ = inputs((2, 3, size, size, 8, 8), dtype)
    arguments = {
        "none": None,
        "lengths": (torch.arange(size) < torch.tensor([[size - 2], [size]]))[:, None, None],
        "causal": torch.ones(size, size, dtype=torch.bool).tril(),
        "nothing": torch.zeros(1, 1, dtype=torch.bool),
    }[mask]
    everything = torch.ones(size, size, dtype=torch.bool) if arguments is None else arguments
    output, weights = attention_forward(AttentionInputs(query, key, value, arguments, 0.5, None, 0), keep_weights=True)
    assert weights is not None
    exact = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    wanted = formula(exact[0], exact[1], exact[2], everything, 0.5, torch.ones(()))
    torch.testing.assert_close(output.double(), wanted.detach(), atol=TOLERANCE[dtype], rtol=0)
    assert not weights.masked_select(~everything.expand(weights.shape)).any()

    result = attention_backward(gradient, AttentionInputs(query, key, value, arguments, 0.5, None, 0), weights)
    for ours, expected in zip(result, torch.autograd.grad(wanted, exact, gradient.double()), strict=True):
        torch.testing.assert_close(ours.double(), expected, atol=5 * TOLERANCE[dtype], rtol=0)
    again, nothing = attention_forward(AttentionInputs(query, key, value, arguments, 0.5, None, 0), keep_weights=False)
    assert nothing is None
    assert torch.equal(again, output)
    recomputed = attention_backward(gradient, AttentionInputs(query, key, value, arguments, 0.5, None, 0), None)
    assert all(torch.equal(first, second) for first, second in zip(recomputed, result, strict=True))


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_twin_gives_the_same_attention(dtype: torch.dtype) -> None:
    (query, key, value, gradient), mask = inputs((3, 4, 7, 9, 16, 16), dtype)
    result = []
    for backend in BACKENDS:
        torch.manual_seed(7)
        leaves = [tensor.detach().clone().requires_grad_() for tensor in (query, key, value)]
        with kernels.use(backend):
            output, weights = soft_attention(
                leaves[0], leaves[1], leaves[2], mask, 0.25, dropout=0.2, with_weights=True
            )
        # half precision rounds the scores of the twin
        assert (weights is None) == (backend == "torch" and dtype == torch.bfloat16)
        result.append((output, *torch.autograd.grad(output, leaves, gradient)))
    for native, twin in zip(*result, strict=True):
        torch.testing.assert_close(native, twin, atol=4 * TOLERANCE[dtype], rtol=4 * TOLERANCE[dtype])


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_weights_are_computed_again_and_few_are_kept(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    (query, key, value, gradient), mask = inputs((2, 3, 60, 50, 32, 32), dtype)
    kept, result = [], []
    forward = attention_forward

    def watched(*given: Any, keep_weights: bool) -> tuple[Tensor, Tensor | None]:
        kept.append(keep_weights)
        return forward(*given, keep_weights=keep_weights)

    monkeypatch.setattr(attention_calls, "attention_forward", watched)
    for most in (2 * 3 * 60 * 50, 2 * 3 * 60 * 50 - 1):
        monkeypatch.setattr(attention, "KEPT_WEIGHTS", most)
        leaves = [tensor.detach().clone().requires_grad_() for tensor in (query, key, value)]
        output, _ = soft_attention(leaves[0], leaves[1], leaves[2], mask, 0.25)
        result.append((output, *torch.autograd.grad(output, leaves, gradient)))
    assert kept == [True, False]
    assert all(torch.equal(first, second) for first, second in zip(*result, strict=True))


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_the_same_with_tiles_and_without(dtype: torch.dtype) -> None:
    """Before dropout, over the keys that may be seen; float32 never comes into tiles."""
    allowed = tiles_allowed()
    (query, key, value, _), mask = inputs((2, 2, 90, 70, 32, 32), dtype)
    allowed.value = 0
    try:
        plain, plain_weights = attention_forward(
            AttentionInputs(query, key, value, mask, 0.3, None, 0), keep_weights=True
        )
    finally:
        allowed.value = 1
    tiled, tiled_weights = attention_forward(AttentionInputs(query, key, value, mask, 0.3, None, 0), keep_weights=True)
    assert plain_weights is not None
    assert tiled_weights is not None
    assert torch.equal(plain_weights, tiled_weights) == (dtype == torch.float32)
    torch.testing.assert_close(tiled_weights, plain_weights, atol=2e-6, rtol=0)
    torch.testing.assert_close(tiled, plain, atol=TOLERANCE[dtype], rtol=0)
    exact = torch.softmax((query.double() @ key.double().mT * 0.3).masked_fill(~mask, -torch.inf), -1).nan_to_num(0.0)
    torch.testing.assert_close(tiled_weights.double(), exact, atol=2e-6, rtol=0)


def tiles_allowed() -> ctypes.c_int:
    """Whether this process may use them: of the library, to be changed."""
    try:
        allowed = ctypes.c_int.in_dll(library.library(), "tiles_allowed")  # type: ignore[arg-type]
    except ValueError:
        pytest.skip("kernels are compiled without tiles here")
    if not allowed.value:
        pytest.skip("the system gives no tiles to this process")
    return allowed


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [3, 300])
def test_a_score_that_is_no_number_is_not_hidden(queries: int, dtype: torch.dtype) -> None:
    (query, key, value, _), _ = inputs((1, 1, queries, 40, 8, 8), dtype)
    query[0, 0, 1] = torch.nan
    output, _ = attention_forward(AttentionInputs(query, key, value, None, 0.5, None, 0), keep_weights=False)
    assert output[0, 0, 1].isnan().all()
    assert output[0, 0, [0, *range(2, queries)]].isfinite().all()


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [12, 120])
def test_what_is_hidden_from_all_may_be_anything(size: int, dtype: torch.dtype) -> None:
    (query, key, value, gradient), _ = inputs((1, 2, size, size, 16, 16), dtype)
    mask = (torch.arange(size) < size - 5)[None, None, None]
    result = []
    for padding in (0.0, torch.nan):
        key[:, :, -5:], value[:, :, -5:] = padding, padding
        output, weights = attention_forward(AttentionInputs(query, key, value, mask, 0.5, None, 0), keep_weights=True)
        result.append(
            (output, *attention_backward(gradient, AttentionInputs(query, key, value, mask, 0.5, None, 0), weights))
        )
    for first, second in zip(*result, strict=True):
        assert torch.equal(first, second)
    assert not result[0][2][:, :, -5:].any()
    assert not result[0][3][:, :, -5:].any()


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_every_time(threads: int) -> None:
    (query, key, value, gradient), mask = inputs((5, 4, 12, 12, 32, 32), torch.bfloat16)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        runs = []
        for _ in range(2):
            output, weights = attention_forward(
                AttentionInputs(query, key, value, mask, 0.5, None, 0), keep_weights=True
            )
            result = attention_backward(gradient, AttentionInputs(query, key, value, mask, 0.5, None, 0), weights)
            runs.append((output, *result))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(first, second) for first, second in zip(*runs, strict=True))


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("entries", [1, 63, 4096, 10_001])
def test_add_dropped_is_its_formula(dtype: torch.dtype, entries: int) -> None:
    rest, x = torch.randn(2, entries).to(dtype)
    threshold = drop_threshold(0.1)
    dropped = x.double() * mask_of(bits_of_seed(-7, x.double()), threshold, torch.float64)
    for arguments, wanted in ((rest, rest.double() + dropped), (None, dropped)):
        result = add_dropped(arguments, x, -7, threshold)
        torch.testing.assert_close(result, wanted.to(dtype), atol=1e-6, rtol=1e-6 if dtype == torch.float32 else 8e-3)


@needs_kernels
def test_dropout_and_its_gradient_are_those_of_the_twin() -> None:
    rest, x = torch.randn(2, 40, 16)
    result = []
    for backend in BACKENDS:
        torch.manual_seed(3)
        leaves = rest.clone().requires_grad_(), x.clone().requires_grad_()
        layer = Dropout(0.3).train()
        with kernels.use(backend):
            output = layer.add_to(leaves[0], layer(leaves[1]))
        result.append((output, *torch.autograd.grad(output.square().sum(), leaves)))
    for native, twin in zip(*result, strict=True):
        torch.testing.assert_close(native, twin)


@needs_kernels
def test_dropout_differentiates_twice() -> None:
    x = torch.randn(12, requires_grad=True)
    torch.manual_seed(3)
    output = Dropout(0.3).train().add_to(torch.zeros(12), x)
    (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    # output = x * kept, so d2/dx2 of its square is 2 kept^2
    kept = (output / x).detach()
    torch.testing.assert_close(second, 2 * kept.square())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.usefixtures("either_path")
def test_the_loss_and_its_gradient_are_those_of_the_formula(dtype: torch.dtype, smoothing: float) -> None:
    logits, targets = (torch.randn(9, 77) * 3).to(dtype), torch.randint(0, 77, (9,))
    exact = logits.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(exact, targets, reduction="none", label_smoothing=smoothing)
    (gradient,) = torch.autograd.grad(wanted.sum(), exact)
    plain = torch.nn.functional.cross_entropy(exact, targets, reduction="none")
    loss, likelihood = smoothed_softmax(logits, targets, smoothing)
    torch.testing.assert_close(loss.double(), wanted.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(likelihood.double(), plain.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits.double(), gradient, atol=4e-3 if dtype == torch.bfloat16 else 1e-6, rtol=0)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.usefixtures("either_path")
def test_a_logit_that_is_no_number_is_not_hidden(wrong: float) -> None:
    logits = torch.zeros(3, 20)
    logits[1, 4] = wrong
    loss, _ = smoothed_softmax(logits, torch.zeros(3, dtype=torch.int64), 0.1)
    assert not loss[1].isfinite()
    assert loss[[0, 2]].isfinite().all()


def test_other_types_and_mixtures_are_left_to_pytorch() -> None:
    assert not runs_native(torch.zeros(2, dtype=torch.float64))
    assert not runs_native(torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16))


@pytest.mark.usefixtures("without_kernels")
def test_asking_for_a_kernel_that_is_not_here_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not runs_native(torch.zeros(2))
    monkeypatch.setattr(calls, "library", lambda: None)
    with pytest.raises(RuntimeError, match="there are no native kernels here; ask runs_native first"):
        calls.native_library.__wrapped__()


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [2, 16, 22])
@pytest.mark.parametrize("placed", [False, True])
def test_the_twin_turns_by_the_same_angles(width: int, dtype: torch.dtype, placed: bool) -> None:
    (x, _, _, _), _ = inputs((2, 3, 5, 1, width, 1), dtype)
    position_ids = torch.tensor([[0, 2, 3, 9, 300], [1, 5, 6, 7, 8]]) if placed else None
    gradient, result = torch.randn(x.shape).to(dtype), []
    for backend in BACKENDS:
        leaf = x.detach().clone().requires_grad_()
        with kernels.use(backend):
            output = RotaryPositions(width)(leaf, 0 if placed else 4, position_ids)
        result.append((output, *torch.autograd.grad(output, leaf, gradient)))
    for native, twin in zip(*result, strict=True):
        torch.testing.assert_close(native, twin, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
