"""A model of MiniSBD that ends a sentence at each full stop: MiniSBD fetches its own from a site that is no registry.

argostranslate and LibreTranslate ask it where sentences end before they translate.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

_SETTINGS = {"feat_funcs": ["end_of_para"], "batch_size": 32, "max_seqlen": 1000}
_UNITS = ["<PAD>", "<UNK>", "."]
_VOCABULARY = {
    "lang": "", "lower": False, "_id2unit": _UNITS, "_unit2id": {unit: number for number, unit in enumerate(_UNITS)}
}  # fmt: skip


def write_splitter(path: Path) -> None:
    """Write the graph: logits (B, N, 3) of "goes on", "ends a word", "ends a sentence".

    A sentence ends at a full stop, and where the feature "ends all" is 1.
    """
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "length", 1])
    units = helper.make_tensor_value_info("units", TensorProto.INT64, ["batch", "length"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", 3])
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in (("half", 0.5), ("no", 0))]
    stop = _UNITS.index(".")
    constants += [
        helper.make_tensor(name, TensorProto.INT64, [1], [one]) for name, one in (("stop", stop), ("last", 2))
    ]
    nodes = [
        helper.make_node("Mul", ["features", "no"], ["word"]),
        helper.make_node("Add", ["word", "half"], ["inside"]),
        helper.make_node("Equal", ["units", "stop"], ["is_stop"]),
        helper.make_node("Cast", ["is_stop"], ["stops"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["stops", "last"], ["after_stops"]),
        helper.make_node("Max", ["features", "after_stops"], ["end"]),
        helper.make_node("Concat", ["inside", "word", "end"], ["logits"], axis=2),
    ]
    graph = helper.make_graph(nodes, "splitter", [units, features], [logits], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(
        model, {"lang_code": path.stem, "config": json.dumps(_SETTINGS), "vocab": json.dumps(_VOCABULARY)}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
