"""Collect the nodes and weights of one ONNX graph, whose values go by their names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from torch import Tensor, nn

from dikkat.interop.exported_texts import TABLE_ROWS

OPSET = 17
"""Version of the operators: the first with LayerNormalization, which ONNX Runtime reads in browsers and on phones."""
_IR_VERSION = 8
"""Version of the file format that came with this set of operators."""
FAR = 1 << 62
"""The end of an axis of any size."""
Shape = Sequence[str | int]
"""Names of the dimensions that change from call to call, and sizes of the others."""


class Graph:
    """Build a graph: each method adds nodes and returns the name of what they compute.

    Weights have the names that they have in `network`; one that is used twice is stored once. Tables of computed
    positions have `table_rows` rows.
    """

    def __init__(self, name: str, network: nn.Module, table_rows: int = TABLE_ROWS) -> None:
        self.name, self.table_rows = name, table_rows
        self._names = {id(weight): name for name, weight in network.named_parameters()}
        self._nodes: list[NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, kind: int, shape: Shape) -> str:
        """Declare an input of a type of `TensorProto`."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: Shape) -> None:
        """Declare a computed value as an output of float32."""
        self._nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        name = f"{operator}_{len(self._nodes)}"
        values = [name if outputs == 1 else f"{name}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), values, name=name, **attributes))
        return values

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        return self.node(operator, *inputs, **attributes)[0]

    def weight(self, parameter: Tensor, rows: slice | None = None, *, transposed: bool = False) -> str:
        """Store a parameter of the network, some of its rows, or its transpose."""
        name = self._names[id(parameter)]
        values = parameter.detach()
        if rows is not None and (rows.start, rows.stop) != (0, len(values)):
            name, values = f"{name}.{rows.start}-{rows.stop}", values[rows]
        if transposed:
            name, values = f"{name}.T", values.T
        return self.table(name, values)

    def table(self, name: str, values: Tensor) -> str:
        """Store numbers that are not parameters, as they are, in float32."""
        return self._store(name, values.to(torch.float32).contiguous().numpy())

    def ints(self, *numbers: int) -> str:
        """Store a vector of whole numbers."""
        return self._store(f"ints_{'_'.join(map(str, numbers))}", np.array(numbers, dtype=np.int64))

    def whole(self, number: int) -> str:
        """Store one whole number, without an axis."""
        return self._store(f"int_{number}", np.array(number, dtype=np.int64))

    def number(self, value: float) -> str:
        return self._store(f"number_{value!r}", np.array(value, dtype=np.float32))

    def size(self, value: str, axis: int) -> str:
        """Return the size of an axis of `value`, as a vector of one number."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def range(self, start: str | None, length: str) -> str:
        """Return the `length` whole numbers from `start` on, or from 0 on; both are vectors of one number."""
        zero, one = (self.whole(number) for number in (0, 1))
        first = zero if start is None else self.op("Squeeze", start, self.ints(0))
        end = self.op("Squeeze", length, self.ints(0))
        return self.op("Range", first, end if start is None else self.op("Add", first, end), one)

    def reshape(self, value: str, *shape: int) -> str:
        """Return `value` in another shape, in which 0 stands for the size that is there and -1 for the rest."""
        return self.op("Reshape", value, self.ints(*shape))

    def transpose(self, value: str, *order: int) -> str:
        return self.op("Transpose", value, perm=list(order))

    def unsqueeze(self, value: str, *axes: int) -> str:
        return self.op("Unsqueeze", value, self.ints(*axes))

    def part(self, value: str, axis: int, start: str | int, end: int = FAR) -> str:
        """Return the entries of an axis from `start` on, a number or a vector of one, up to `end`."""
        first = self.ints(start) if isinstance(start, int) else start
        return self.op("Slice", value, first, self.ints(end), self.ints(axis))

    def scale(self, value: str, factor: float) -> str:
        return value if factor == 1.0 else self.op("Mul", value, self.number(factor))

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Return the parts of these sizes of the last axis."""
        return self.node("Split", value, self.ints(*sizes), outputs=len(sizes), axis=-1)

    def model(self) -> ModelProto:
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, list(self._initializers.values())
        )
        operators = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=operators, ir_version=_IR_VERSION, producer_name="dikkat")

    def _store(self, name: str, values: np.ndarray[Any, np.dtype[Any]]) -> str:
        if name not in self._initializers:
            kind = helper.np_dtype_to_tensor_dtype(values.dtype)
            self._initializers[name] = helper.make_tensor(name, kind, values.shape, values.tobytes(), raw=True)
        return name
