"""Linear layers, tables, norms, residual sums and feed-forward networks as layers of Keras, filled with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops
from torch import Tensor, nn

from dikkat.interop.exported_texts import TABLE_ROWS
from dikkat.nn.blocks import PostNormResidual, PreNormResidual
from dikkat.nn.feed_forward import FeedForward, GatedFeedForward
from dikkat.nn.norms import RMSNorm

KerasTensor = Any
"""A value of a functional model, which has no types of its own here."""
Residual = PostNormResidual | PreNormResidual


class Tables:
    """Hold the layers that are used more than once, by the source of their weights.

    Tables of computed positions have so many `rows`.
    """

    def __init__(self, rows: int = TABLE_ROWS) -> None:
        self.rows = rows
        self._layers: dict[object, Any] = {}

    def table(self, source: object, rows: Tensor, name: str, *, trainable: bool = True) -> Any:
        """Return the embedding with the `rows` (V, D) of `source`, which also multiplies by them if it is reversed."""
        if source not in self._layers:
            size, width = rows.shape
            layer = keras.layers.ReversibleEmbedding(size, width, trainable=trainable, name=name)
            layer.build()
            layer.set_weights([array(rows)])
            self._layers[source] = layer
        return self._layers[source]

    def norm(self, layer: nn.Module, x: KerasTensor, name: str) -> KerasTensor:
        """Compute a layer norm, a root-mean-square norm or nothing at all."""
        if isinstance(layer, nn.Identity):
            return x
        if layer not in self._layers:
            self._layers[layer] = _norm(layer, name)
        return self._layers[layer](x)


def linear(layer: nn.Linear, x: KerasTensor, name: str, rows: slice = slice(None)) -> KerasTensor:
    """Compute a linear layer of `x`, or only the outputs `rows` of it."""
    # (outputs, inputs) -> (inputs, outputs)
    weights = [array(layer.weight[rows]).T]
    if layer.bias is not None:
        weights.append(array(layer.bias[rows]))
    dense = keras.layers.Dense(weights[0].shape[1], use_bias=layer.bias is not None, name=name)
    product = dense(x)
    dense.set_weights(weights)
    return product


def dropout(x: KerasTensor, probability: float) -> KerasTensor:
    """Drop entries of `x` in training."""
    return keras.layers.Dropout(probability)(x) if probability else x


def residual(
    tables: Tables, wrapper: Residual, x: KerasTensor, sub_layer: Callable[[KerasTensor], KerasTensor], name: str
) -> KerasTensor:
    """Compute a residual sum of `x` and its sub-layer, with the norm before or after it."""
    norm_name = f"{name}_norm"
    if isinstance(wrapper, PreNormResidual):
        y = sub_layer(tables.norm(wrapper.norm, x, norm_name))
        return x + dropout(y, wrapper.dropout.probability)
    total = x + dropout(sub_layer(x), wrapper.dropout.probability)
    return tables.norm(wrapper.norm, total, norm_name)


def feed_forward(network: FeedForward | GatedFeedForward, x: KerasTensor, name: str) -> KerasTensor:
    """Compute a feed-forward network, gated or not."""
    hidden = linear(network.inner, x, f"{name}_inner")
    activation = _ACTIVATIONS[network.activation]
    if isinstance(network, GatedFeedForward):
        gate, content = ops.split(hidden, 2, axis=-1)
        hidden = activation(gate) * content
    else:
        hidden = activation(hidden)
    return linear(network.outer, hidden, f"{name}_outer")


def array(values: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the numbers of a tensor."""
    return values.detach().cpu().numpy()


def _norm(layer: nn.Module, name: str) -> Any:
    if isinstance(layer, nn.LayerNorm):
        keras_norm = keras.layers.LayerNormalization(epsilon=layer.eps, name=name)
        weights = [array(layer.weight), array(layer.bias)]
    elif isinstance(layer, RMSNorm):
        keras_norm = keras.layers.RMSNormalization(epsilon=layer.eps or 0.0, name=name)
        weights = [array(layer.weight)]
    else:
        raise TypeError(f"no Keras layer is known for the norm {type(layer).__name__}")
    keras_norm.build((None, None, len(weights[0])))
    keras_norm.set_weights(weights)
    return keras_norm


def _gelu(x: KerasTensor) -> KerasTensor:
    return ops.gelu(x, approximate=False)


def _gelu_tanh(x: KerasTensor) -> KerasTensor:
    return ops.gelu(x, approximate=True)


_ACTIVATIONS: dict[str, Callable[[KerasTensor], KerasTensor]] = {
    "relu": ops.relu,
    "silu": ops.silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "geglu": _gelu,
    "swiglu": ops.silu,
}
"""Operations of an activation, or of the gate of a gated network, by its name."""
