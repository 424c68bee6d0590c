"""Child of decode_speed.py: the weights of a run directory as a model of CTranslate2, through its Python spec."""

from __future__ import annotations

import json
import sys
from typing import Any

import ctranslate2
import numpy as np
from benchmarks.contenders.peer_tokenizer import BOS_ID, EOS_ID, UNK_ID, PeerTokenizer
from ctranslate2.converters import Converter
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation

ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU}
Weights = dict[str, np.ndarray[Any, np.dtype[np.float32]]]


class RunConverter(Converter):  # type: ignore[misc]
    """The run directory's layers, one by one, into the layers of the spec; the spec itself refuses to lack any."""

    def __init__(self, model: dict[str, Any], weights: Weights, vocabulary: list[str]) -> None:
        self.model, self.weights, self.vocabulary = model, weights, vocabulary

    def _load(self) -> Any:
        model = self.model
        spec = TransformerSpec.from_config(
            (model["encoder_layers"], model["decoder_layers"]),
            model["num_heads"],
            pre_norm=model["norm_placement"] == "pre",
            activation=ACTIVATIONS[model["activation"]],
            rms_norm=model["norm"] == "rms",
        )
        spec.decoder.start_from_zero_embedding = False  # ours starts from the embedding of <bos>
        self.stack(spec.encoder, spec.encoder.embeddings[0], "encoder", "source_embedding")
        self.stack(spec.decoder, spec.decoder.embeddings, "decoder", "target_embedding")
        spec.decoder.projection.weight = self.weights["output_weight"]
        spec.register_source_vocabulary(self.vocabulary)
        spec.register_target_vocabulary(self.vocabulary)
        for name, token in (("bos", BOS_ID), ("eos", EOS_ID), ("unk", UNK_ID), ("decoder_start", BOS_ID)):
            setattr(spec.config, f"{name}_token", self.vocabulary[token])
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = model["norm_eps"]
        return spec

    def stack(self, spec: Any, embeddings: Any, name: str, embedding: str) -> None:
        embeddings.weight = self.weights[f"{embedding}.weight"]
        spec.position_encodings.encodings = self.weights["positions"]
        if self.model["norm_placement"] == "pre":
            self.norm(spec.layer_norm, f"{name}.final_norm")
        for number, layer in enumerate(spec.layer):
            self.block(layer, f"{name}.blocks.{number}")

    def block(self, layer: Any, name: str) -> None:
        self.self_attention(layer.self_attention, f"{name}.self_attention")
        self.norm(layer.self_attention.layer_norm, f"{name}.self_residual.norm")
        if hasattr(layer, "attention"):
            self.cross_attention(layer.attention, f"{name}.cross_attention")
            self.norm(layer.attention.layer_norm, f"{name}.cross_residual.norm")
        self.linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
        self.linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
        self.norm(layer.ffn.layer_norm, f"{name}.feed_forward_residual.norm")

    def self_attention(self, spec: Any, name: str) -> None:
        self.linear(spec.linear[0], f"{name}.in_projection")
        self.linear(spec.linear[1], f"{name}.out_projection")

    def cross_attention(self, spec: Any, name: str) -> None:
        """Our packed projection holds query, key and value; the query is a layer of its own there."""
        width = self.model["model_dim"]
        self.linear(spec.linear[0], f"{name}.in_projection", slice(0, width))
        self.linear(spec.linear[1], f"{name}.in_projection", slice(width, 3 * width))
        self.linear(spec.linear[2], f"{name}.out_projection")

    def linear(self, spec: Any, name: str, rows: slice = slice(None)) -> None:
        spec.weight = self.weights[f"{name}.weight"][rows]
        if f"{name}.bias" in self.weights:
            spec.bias = self.weights[f"{name}.bias"][rows]

    def norm(self, spec: Any, name: str) -> None:
        spec.gamma = self.weights[f"{name}.weight"]
        if f"{name}.bias" in self.weights:
            spec.beta = self.weights[f"{name}.bias"]


def main(job: dict[str, Any]) -> dict[str, Any]:
    with np.load(job["weights"]) as arrays:
        weights = dict(arrays)
    RunConverter(job["model"], weights, PeerTokenizer(job["run"]).vocabulary()).convert(job["converted"])
    return {"versions": {"ctranslate2": ctranslate2.__version__}}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
