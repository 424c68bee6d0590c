"""The simpler simple recurrent unit as nodes of ONNX."""

from __future__ import annotations

from onnx import TensorProto, helper

from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import linear
from dikkat.nn.ssru import SSRU


def recurrence(graph: Graph, unit: SSRU, x: str, past: str) -> tuple[str, str]:
    """Compute the unit of `x` (B, T, D) after the states `past` (B, 1, P, D).

    Returns its output (B, T, D) and all states (B, 1, P + T, D), as the cache of our engines holds them.
    """
    width = unit.content.out_features
    forget = graph.op("Sigmoid", linear(graph, unit.forget, x))
    fresh = graph.op("Mul", graph.op("Sub", graph.number(1.0), forget), linear(graph, unit.content, x))
    # the state before the first token is zero: (B, 1 + P, D) -> (B, D)
    shape = graph.op("Concat", graph.size(x, 0), graph.ints(1, width), axis=0)
    zeros = graph.op("Expand", graph.number(0.0), shape)
    before = graph.op("Concat", zeros, graph.op("Squeeze", past, graph.ints(1)), axis=1)
    state = graph.op("Squeeze", graph.part(before, 1, -1), graph.ints(1))
    scan = {"num_scan_inputs": 2, "scan_input_axes": [1, 1], "scan_output_axes": [1]}
    _, states = graph.node("Scan", state, forget, fresh, outputs=2, body=_step(width), **scan)
    return graph.op("Relu", states), graph.op("Concat", past, graph.unsqueeze(states, 1), axis=2)


def _step(width: int) -> object:
    """Return the graph of one step: the new state, which is carried on and written out."""
    row = ("batch_size", width)
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["forget", "state"], ["kept"]),
        helper.make_node("Add", ["kept", "fresh"], ["next_state"]),
        helper.make_node("Identity", ["next_state"], ["written_state"]),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, row) for name in names]
        for names in (("state", "forget", "fresh"), ("next_state", "written_state"))
    )
    return helper.make_graph(nodes, "ssru_step", inputs, outputs)
