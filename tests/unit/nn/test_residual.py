"""The residual wrapper: the two orders of norm, sub-layer, dropout and sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, to_numpy
from torch import Tensor, nn

from dikkat.nn.blocks import PostNormResidual, PreNormResidual, residual


def numpy_norm(x: Array, eps: float = 1e-5) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps))


def square(x: Tensor) -> Tensor:
    return x * x


def test_post_norm_is_the_norm_of_the_sum() -> None:
    x = torch.randn(2, 3, 8)
    output = PostNormResidual(8)(x, square)
    np.testing.assert_allclose(to_numpy(output), numpy_norm(to_numpy(x) + to_numpy(x) ** 2), rtol=0, atol=1e-5)


def test_pre_norm_is_the_sum_with_the_sub_layer_of_the_norm() -> None:
    x = torch.randn(2, 3, 8)
    output = PreNormResidual(8)(x, square)
    np.testing.assert_allclose(to_numpy(output), to_numpy(x) + numpy_norm(to_numpy(x)) ** 2, rtol=0, atol=1e-5)


@pytest.mark.seed("E3")
def test_layer_norm_looks_along_the_last_dimension() -> None:
    output = PostNormResidual(2)(torch.tensor([[[1.0, 2.0], [2.0, 3.0]]]), torch.zeros_like)
    torch.testing.assert_close(output, torch.tensor([[[-1.0, 1.0], [-1.0, 1.0]]]), rtol=0, atol=5e-5)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_dropout_falls_on_the_sub_layer_only(placement: str) -> None:
    """The sub-layer's entries are dropped or doubled; what passes beside it is whole."""
    wrapper = residual(placement, 6, 0.5, 1e-5)
    wrapper.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.randn(4, 5, 6)
    added = wrapper(x, lambda y: torch.full_like(y, 8.0)) - x
    assert set(added.round().flatten().tolist()) == {0.0, 16.0}
    torch.testing.assert_close(wrapper.eval()(x, lambda y: torch.full_like(y, 8.0)), x + 8.0)


@pytest.mark.seed("A15")
def test_epsilon_is_a_setting() -> None:
    x = torch.tensor([[[0.0, 1e-3]]])
    for eps in (1e-5, 1e-12):
        expected = numpy_norm(to_numpy(x), eps)
        np.testing.assert_allclose(to_numpy(PostNormResidual(2, eps=eps)(x, torch.zeros_like)), expected, rtol=1e-4)


@pytest.mark.seed("E4")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_unequal_shapes_are_refused(placement: str, unchecked_shapes: None) -> None:
    message = r"needs equal shapes, but the input is \(2, 3, 4\) and the output \(2, 1, 4\)"
    with pytest.raises(ValueError, match=message):  # PyTorch alone would broadcast
        residual(placement, 4, 0.0, 1e-5)(torch.randn(2, 3, 4), lambda y: y[:, :1])


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="norm placement must be one of post, pre, output, both, not 'middle'"):
        residual("middle", 4, 0.0, 1e-5)
