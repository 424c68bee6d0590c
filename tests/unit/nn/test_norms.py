"""Layer norm and root-mean-square norm against their formulas, and by name in the residual wrappers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import to_numpy

from dikkat.nn.blocks import residual
from dikkat.nn.layers import LayerNorm, RMSNorm, named_norm


def test_rms_norm_is_the_formula() -> None:
    """x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4)."""
    norm, x = named_norm("rms", 6, 1e-3), torch.randn(2, 3, 6)
    assert isinstance(norm, RMSNorm)
    torch.nn.init.normal_(norm.weight)
    values = to_numpy(x)
    expected = values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-3) * to_numpy(norm.weight)
    np.testing.assert_allclose(to_numpy(norm(x)), expected, rtol=0, atol=1e-5)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


def test_layer_norm_is_the_formula() -> None:
    norm, x = named_norm("layer", 6, 1e-3), torch.randn(2, 3, 6)
    assert isinstance(norm, LayerNorm)
    values = to_numpy(x)
    centred = values - values.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(to_numpy(norm(x)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_residual_wrappers_take_either(placement: str) -> None:
    for name, kind in (("layer", LayerNorm), ("rms", RMSNorm)):
        wrapper = residual(placement, 8, 0.0, 1e-5, name)
        assert type(wrapper.norm) is kind
        assert wrapper(torch.randn(1, 3, 8), lambda y: y).shape == (1, 3, 8)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match="norm must be one of layer, rms, not 'batch'"):
        residual("pre", 8, 0.0, 1e-5, "batch")
