"""Linear layers, norms, residual sums and feed-forward networks as nodes of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn

from dikkat.interop.onnx_export.graph import Graph
from dikkat.nn.blocks import PostNormResidual, PreNormResidual
from dikkat.nn.feed_forward import FeedForward, GatedFeedForward
from dikkat.nn.norms import RMSNorm

Residual = PostNormResidual | PreNormResidual


def linear(graph: Graph, layer: nn.Linear, x: str, rows: slice | None = None) -> str:
    """Compute a linear layer of `x`, or only the outputs `rows` of it."""
    product = graph.op("MatMul", x, graph.weight(layer.weight, rows, transposed=True))
    return product if layer.bias is None else graph.op("Add", product, graph.weight(layer.bias, rows))


def norm(graph: Graph, layer: nn.Module, x: str) -> str:
    """Compute a layer norm, a root-mean-square norm or nothing at all."""
    if isinstance(layer, nn.LayerNorm):
        parameters = [graph.weight(layer.weight), graph.weight(layer.bias)]
        return graph.op("LayerNormalization", x, *parameters, axis=-1, epsilon=layer.eps)
    if isinstance(layer, RMSNorm):
        squares = graph.op("ReduceMean", graph.op("Mul", x, x), axes=[-1], keepdims=1)
        epsilon = graph.number(layer.eps or 0.0)
        root = graph.op("Sqrt", graph.op("Add", squares, epsilon))
        return graph.op("Mul", graph.op("Div", x, root), graph.weight(layer.weight))
    if isinstance(layer, nn.Identity):
        return x
    raise TypeError(f"no nodes are known for the norm {type(layer).__name__}")


def residual_input(graph: Graph, residual: Residual, x: str) -> str:
    """Compute what the sub-layer of a residual wrapper reads."""
    return norm(graph, residual.norm, x) if isinstance(residual, PreNormResidual) else x


def residual_sum(graph: Graph, residual: Residual, x: str, y: str) -> str:
    """Compute the sum of a residual wrapper, `y` being the output of its sub-layer."""
    total = graph.op("Add", x, y)
    return norm(graph, residual.norm, total) if isinstance(residual, PostNormResidual) else total


def feed_forward(graph: Graph, residual: Residual, network: FeedForward | GatedFeedForward, x: str) -> str:
    """Compute the feed-forward sub-layer of a block and its residual sum."""
    hidden = linear(graph, network.inner, residual_input(graph, residual, x))
    if isinstance(network, GatedFeedForward):
        gate, content = graph.split(hidden, [network.inner.out_features // 2] * 2)
        hidden = graph.op("Mul", ACTIVATIONS[network.activation](graph, gate), content)
    else:
        hidden = ACTIVATIONS[network.activation](graph, hidden)
    return residual_sum(graph, residual, x, linear(graph, network.outer, hidden))


def _relu(graph: Graph, x: str) -> str:
    return graph.op("Relu", x)


def _silu(graph: Graph, x: str) -> str:
    return graph.op("Mul", x, graph.op("Sigmoid", x))


def _gelu(graph: Graph, x: str) -> str:
    spread = graph.op("Erf", graph.op("Div", x, graph.number(math.sqrt(2.0))))
    return graph.scale(graph.op("Mul", x, graph.op("Add", spread, graph.number(1.0))), 0.5)


def _gelu_tanh(graph: Graph, x: str) -> str:
    cube = graph.op("Mul", graph.op("Mul", x, x), x)
    inner = graph.scale(graph.op("Add", x, graph.scale(cube, 0.044715)), math.sqrt(2.0 / math.pi))
    return graph.scale(graph.op("Mul", x, graph.op("Add", graph.op("Tanh", inner), graph.number(1.0))), 0.5)


ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "relu": _relu,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "geglu": _gelu,
    "swiglu": _silu,
}
"""Nodes of an activation, or of the gate of a gated network, by its name."""
