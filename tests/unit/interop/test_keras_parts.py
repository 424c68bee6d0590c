"""Layers of Keras that are written of ours: the same numbers, and in training the same dropout."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs keras, of the extra [test]")

from dikkat.interop.keras_export.layers import Tables, feed_forward, residual  # noqa: E402
from dikkat.nn import PostNormResidual, PreNormResidual  # noqa: E402
from dikkat.nn.layers import FeedForward, GatedFeedForward  # noqa: E402

X = torch.randn(2, 5, 8)


def model_of(compute: Any) -> Any:
    x = keras.Input((5, 8))
    return keras.Model(x, compute(x))


@pytest.mark.parametrize("kind", [PreNormResidual, PostNormResidual])
def test_a_residual_sum_drops_in_training_as_ours(kind: type[PreNormResidual]) -> None:
    wrapper = kind(8, dropout=0.25, eps=0.1).eval()
    with torch.no_grad():
        for parameter in wrapper.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model = model_of(lambda x: residual(Tables(), wrapper, x, lambda y: 2.0 * y, "part"))
    assert [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)] == [0.25]
    expected = wrapper(X, lambda y: 2.0 * y).detach().numpy()
    np.testing.assert_allclose(np.asarray(model(X.numpy()).detach()), expected, atol=1e-5)
    assert not np.allclose(np.asarray(model(X.numpy(), training=True).detach()), expected, atol=1e-3)
    # no layer at all where nothing is dropped
    quiet = model_of(lambda x: residual(Tables(), kind(8), x, lambda y: 2.0 * y, "part"))
    assert not [layer for layer in quiet.layers if isinstance(layer, keras.layers.Dropout)]


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu", "gelu_tanh", "geglu", "swiglu"])
def test_a_feed_forward_network_is_ours(activation: str) -> None:
    gated = activation in ("geglu", "swiglu")
    network: Any = (GatedFeedForward if gated else FeedForward)(8, 12, activation=activation)
    model = model_of(lambda x: feed_forward(network, x, "part"))
    expected = network(X).detach().numpy()
    np.testing.assert_allclose(np.asarray(model(X.numpy()).detach()), expected, atol=2e-6)
