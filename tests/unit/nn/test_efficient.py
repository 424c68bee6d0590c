"""Sliding-window and linear attention: exact for what they say they are, with a stated error against all keys."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import numpy_attention, to_numpy
from torch import Tensor

from dikkat.nn.functional import attention
from dikkat.nn.linear_time_attention import LinearAttentionState, linear_attention
from dikkat.nn.masks import causal_mask, key_mask, window_mask
from dikkat.nn.sliding_window import sliding_window_attention

REAL = torch.arange(150) < torch.tensor([150, 61])[:, None]


def qkv(length: int = 150) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (torch.randn(2, 3, length, width) for width in (8, 8, 5))
    return query, key, value


def allowed(window: int | None, causal: bool, padded: bool) -> Tensor:
    mask = torch.ones(1, 1, 150, 150, dtype=torch.bool) if window is None else window_mask(150, window=window)
    mask = mask & causal_mask(150) if causal else mask
    return mask & key_mask(REAL) if padded else mask


@pytest.mark.seed("E23")
@pytest.mark.parametrize("window", [0, 1, 20, 70, 200])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_sliding_window_is_exact_attention_within_the_window(window: int, causal: bool, padded: bool) -> None:
    """Rows of padding see no real key and are zero."""
    query, key, value = qkv()
    result = sliding_window_attention(query, key, value, window, real=REAL if padded else None, causal=causal)
    expected, _ = numpy_attention(query, key, value, allowed(window, causal, padded))
    np.testing.assert_allclose(to_numpy(result), expected, rtol=0, atol=1e-5)


@pytest.mark.seed("E23")
@pytest.mark.parametrize("window", [5, 40])
def test_the_error_of_a_window_is_bounded_by_the_weight_outside(window: int) -> None:
    query, key, value = qkv()
    exact, weights = attention(query, key, value)
    outside = (weights * ~window_mask(150, window=window)).sum(-1, keepdim=True)
    error = (sliding_window_attention(query, key, value, window) - exact).abs()
    assert error.max() > 1e-2
    assert (error <= 2 * outside * value.abs().max() + 1e-5).all()


def phi(x: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = to_numpy(x)
    return np.where(values > 0, values + 1, np.exp(np.minimum(values, 0)))


@pytest.mark.seed("E23")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("chunk", [1, 64, 500])
def test_linear_attention_is_its_kernel(causal: bool, padded: bool, chunk: int) -> None:
    """Weights phi(q) phi(k) / sum, phi = elu + 1, over the allowed keys (Katharopoulos et al. 2020, equation 4)."""
    query, key, value = qkv()
    result = linear_attention(query, key, value, real=REAL if padded else None, causal=causal, chunk=chunk)
    kernel = (phi(query) @ np.swapaxes(phi(key), -2, -1)) * allowed(None, causal, padded).numpy()
    expected = kernel / kernel.sum(-1, keepdims=True) @ to_numpy(value)
    np.testing.assert_allclose(to_numpy(result), expected, rtol=0, atol=1e-5)


@pytest.mark.seed("E23")
def test_the_stated_error_of_linear_attention() -> None:
    """The docstring's number, on the inputs that it names."""
    query, key, value = (torch.randn(1, 8, 512, 64) for _ in range(3))
    exact, _ = attention(query, key, value)
    error = (linear_attention(query, key, value) - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert 0.6 < error < 0.8


def test_linear_attention_to_nothing_is_zero_with_finite_gradients() -> None:
    query, key, value = (x.requires_grad_() for x in qkv())
    real = torch.zeros(2, 150, dtype=torch.bool)
    real[0] = True
    output = linear_attention(query, key, value, real=real)
    assert (output[1] == 0).all()
    output.square().sum().backward()
    assert all(x.grad is not None and bool(x.grad.isfinite().all()) for x in (query, key, value))
    assert linear_attention(*(x.detach().bfloat16() for x in (query, key, value))).dtype == torch.bfloat16


def test_the_future_changes_nothing() -> None:
    query, key, value = qkv()
    for attend in (
        lambda k, v: linear_attention(query, k, v, causal=True),
        lambda k, v: sliding_window_attention(query, k, v, 9, causal=True),
    ):
        later_key, later_value = key.clone(), value.clone()
        later_key[..., 80:, :] += 1
        later_value[..., 80:, :] += 1
        difference = (attend(key, value) - attend(later_key, later_value)).abs().amax((0, 1, 3))
        assert difference[:80].max() <= 1e-6
        assert difference[80:].min() > 1e-3


def test_impossible_sizes_are_refused(unchecked_shapes: None) -> None:
    query, key, value = qkv()
    with pytest.raises(ValueError, match="window must be at least 0, not -1"):
        sliding_window_attention(query, key, value, -1)
    with pytest.raises(ValueError, match="key must have the 150 positions of the query, but has 149"):
        sliding_window_attention(query, key[:, :, 1:], value[:, :, 1:], 3)
    with pytest.raises(ValueError, match="under causal=True key must have the 150 positions of the query, but has 149"):
        linear_attention(query, key[:, :, 1:], value[:, :, 1:], causal=True)
    with pytest.raises(ValueError, match="chunk must be at least 1, not 0"):
        linear_attention(query, key, value, chunk=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_attention_step_by_step_is_causal_linear_attention(dtype: torch.dtype) -> None:
    query, key, value = (torch.randn(2, 3, 40, width, dtype=dtype) for width in (8, 8, 5))
    whole, state = linear_attention(query, key, value, causal=True, chunk=16), LinearAttentionState()
    steps = [state.step(*(x[:, :, index : index + 1] for x in (query, key, value))) for index in range(40)]
    result = torch.cat(steps, dim=2)
    assert result.dtype == dtype
    torch.testing.assert_close(result, whole, rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2)


def test_a_step_of_linear_attention_takes_one_position() -> None:
    query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 2, 4)
    with pytest.raises(ValueError, match="key must have 1 position a step, but has 2"):
        LinearAttentionState().step(query, key, key)
    with pytest.raises(ValueError, match="query must have 1 position a step, but has 2"):
        LinearAttentionState().step(key, query, query)
