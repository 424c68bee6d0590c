"""The variables of a Transformer of CTranslate2, and ours: one table for reading and writing.

It keeps matrices as (outputs, inputs), like ours. Query, key and value are one matrix in self-attention; in
cross-attention the query is one, and key and value another, which `halved` and `joined` cut and put together.
"""

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop.foreign_translator import BIAS, OUTPUT, SOURCE, TARGET
from dikkat.models.key_table import Row

ENCODER, DECODER = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
PROJECTION, FINAL_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = ("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")
LEARNED = "positions.embedding"
"""Our table of learned positions, which serves both sides."""
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}
"""The numbers of activations there."""
GATED = {"geglu": "gelu", "swiglu": "silu"}
"""Activations of our gated networks; there they have a second first layer, `linear_0_noact`."""

_PAIRED = re.compile(r"decoder/layer_\d+/attention/linear_1/(?:weight|bias)")
_HALVES = (" (keys)", " (values)")


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a translator of these settings."""
    table = list(_embeddings(model))
    for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(layers):
            table += _layer(model, f"{stack}.blocks.{number}", f"{stack}/layer_{number}")
        if model.norm_placement == "pre":
            table += _norm(model, f"{stack}.final_norm", f"{stack}/layer_norm")
    return table


def copies(model: ModelConfig) -> dict[str, str]:
    """Return the variables that hold the numbers of another one, and that one."""
    tied = {ENCODER: DECODER, PROJECTION: DECODER} if model.target_vocab_size is None else {PROJECTION: DECODER}
    return (tied if model.tie_embeddings else {}) | {POSITIONS[0]: POSITIONS[1]}


def halved(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with the keys' part and the values' part of cross-attention each by itself."""
    weights: dict[str, Tensor] = {}
    for name, tensor in variables.items():
        if _PAIRED.fullmatch(name) and tensor.dim() and tensor.shape[0] % 2 == 0:
            weights |= {name + half: part for half, part in zip(_HALVES, tensor.chunk(2), strict=True)}
        else:
            weights[name] = tensor
    return weights


def joined(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the variables of which `halved` makes these weights."""
    variables: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        whole = name.removesuffix(_HALVES[0]).removesuffix(_HALVES[1])
        variables[whole] = torch.cat((variables[whole], tensor)) if whole in variables else tensor
    return variables


def _embeddings(model: ModelConfig) -> Iterator[Row]:
    if model.tie_embeddings:
        if model.target_vocab_size is not None:
            yield Row(SOURCE, (ENCODER,))
        yield Row(OUTPUT, (DECODER,))
    else:
        yield Row(SOURCE, (ENCODER,))
        yield Row(TARGET, (DECODER,))
        yield Row(OUTPUT, (PROJECTION,))
    if model.output_bias:
        yield Row(BIAS, (FINAL_BIAS,))
    if model.positions == "learned":
        yield Row(LEARNED, (POSITIONS[1],))


def _layer(model: ModelConfig, ours: str, theirs: str) -> Iterator[Row]:
    yield from _attention(model, ours, theirs, "self")
    if ours.startswith("decoder"):
        yield from _attention(model, ours, theirs, "cross")
    inner = ("linear_0", "linear_0_noact") if model.activation in GATED else ("linear_0",)
    for part, names in (("inner", inner), ("outer", ("linear_1",))):
        for kind in ("weight", "bias"):
            yield Row(f"{ours}.feed_forward.{part}.{kind}", tuple(f"{theirs}/ffn/{name}/{kind}" for name in names))
    yield from _norm(model, f"{ours}.feed_forward_residual.norm", f"{theirs}/ffn/layer_norm")


def _attention(model: ModelConfig, ours: str, theirs: str, kind: str) -> Iterator[Row]:
    own, name = f"{ours}.{kind}_attention", f"{theirs}/{'attention' if kind == 'cross' else 'self_attention'}"
    last = 2 if kind == "cross" else 1
    biased = {True: ("weight", "bias"), False: ("weight",)}
    output_bias = model.attention_bias if model.attention_output_bias is None else model.attention_output_bias
    for part in biased[model.attention_bias]:
        whole = (f"{name}/linear_0/{part}",)
        paired = tuple(f"{name}/linear_1/{part}{half}" for half in _HALVES)
        yield Row(f"{own}.in_projection.{part}", whole + paired if kind == "cross" else whole)
    for part in biased[output_bias]:
        yield Row(f"{own}.out_projection.{part}", (f"{name}/linear_{last}/{part}",))
    yield from _norm(model, f"{ours}.{kind}_residual.norm", f"{name}/layer_norm")


def _norm(model: ModelConfig, ours: str, theirs: str) -> Iterator[Row]:
    yield Row(f"{ours}.weight", (f"{theirs}/gamma",))
    if model.norm == "layer":
        yield Row(f"{ours}.bias", (f"{theirs}/beta",))
