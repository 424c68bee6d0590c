"""Weights of the documents' own classes, into ours and back, bit for bit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from dikkat.lessons.classroom.nyu import TransformerClassifier
from dikkat.lessons.classroom.scratch import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
)
from dikkat.lessons.classroom.textbook import EncoderDecoder
from dikkat.models.key_table import Row, layer, stacked, to_ours, to_theirs
from dikkat.nn.positions import sinusoids
from dikkat_runtime.errors import DataError, MissingInputError

# The translator of *Dive into Deep Learning*, section 11.7: names of its PyTorch and of its MXNet parameters.

_FEED_FORWARD = (*layer("feed_forward.inner", "ffn.dense1"), *layer("feed_forward.outer", "ffn.dense2"))


def _attention(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        *layer(f"{ours}.in_projection", *(f"{theirs}.W_{part}" for part in "qkv")),
        *layer(f"{ours}.out_projection", f"{theirs}.W_o"),
    )


ENCODER_BLOCK = (
    *_attention("self_attention", "attention"),
    *layer("self_residual.norm", "addnorm1.ln"),
    *_FEED_FORWARD,
    *layer("feed_forward_residual.norm", "addnorm2.ln"),
)
DECODER_BLOCK = (
    *_attention("self_attention", "attention1"),
    *layer("self_residual.norm", "addnorm1.ln"),
    *_attention("cross_attention", "attention2"),
    *layer("cross_residual.norm", "addnorm2.ln"),
    *_FEED_FORWARD,
    *layer("feed_forward_residual.norm", "addnorm3.ln"),
)


def d2l_rows(encoder_layers: int, decoder_layers: int, *, mxnet: bool = False) -> list[Row]:
    """The table of a translator, with its biases; MXNet numbers blocks plainly and calls a norm's weights gamma, beta.

    Rows of biases that a model has not are to be left out.
    """
    rows = [
        Row("encoder.embedding.weight", ("encoder.embedding.weight",)),
        *_stacked(ENCODER_BLOCK, "encoder", encoder_layers, "" if mxnet else "block"),
        Row("decoder.embedding.weight", ("decoder.embedding.weight",)),
        *_stacked(DECODER_BLOCK, "decoder", decoder_layers, "" if mxnet else "block"),
        *layer("decoder.dense", "decoder.dense"),
    ]
    return [replace(row, theirs=tuple(map(_mxnet_norm, row.theirs))) for row in rows] if mxnet else rows


def _stacked(block: tuple[Row, ...], stack: str, layers: int, prefix: str) -> Iterator[Row]:
    for number in range(layers):
        for row in block:
            yield row.within(f"{stack}.blks.{number}.", f"{stack}.blks.{prefix}{number}.")


def _mxnet_norm(name: str) -> str:
    return name.replace(".ln.weight", ".ln.gamma").replace(".ln.bias", ".ln.beta")


# The sentiment classifier of the NYU course's notebook 15, *Transformer*: the names of its parameters.

NYU_POSITIONS = "encoder.embedding.position_embeddings.weight"
"""The table of sines and cosines, which is stored and never trained."""

BLOCK = (
    Row("self_attention.in_projection.weight", tuple(f"mha.W_{part}.weight" for part in "qkv")),
    *layer("self_attention.out_projection", "mha.W_h"),
    *layer("self_residual.norm", "layernorm1"),
    *layer("feed_forward.inner", "cnn.k1convL1"),
    *layer("feed_forward.outer", "cnn.k1convL2"),
    *layer("feed_forward_residual.norm", "layernorm2"),
)


def nyu_rows(layers: int) -> list[Row]:
    return [
        Row("encoder.embedding.word_embeddings.weight", ("encoder.embedding.word_embeddings.weight",)),
        *layer("encoder.embedding.norm", "encoder.embedding.LayerNorm"),
        *stacked(BLOCK, "encoder.enc_layers", "encoder.enc_layers", layers),
        *layer("dense", "dense"),
    ]


# The attention classes of *Build a Large Language Model (From Scratch)*, chapter 3: the names of their parameters.

MASK = "mask"
"""The causal mask, which the classes store as a buffer."""
_PARTS = ("query", "key", "value")


def attention_rows(parameters: bool = False) -> list[Row]:
    """One head of linear layers, or of bare `parameters`, which are kept as (inputs, outputs)."""
    if parameters:
        return [Row("attention.in_projection.weight", tuple(f"W_{part}" for part in _PARTS), transposed=True)]
    return [*layer("attention.in_projection", *(f"W_{part}" for part in _PARTS))]


LAYOUTS = ("d2l", "d2l-mxnet", "nyu", "scratch")


def load_weights(model: nn.Module, weights: Mapping[str, Tensor] | Path, layout: str) -> None:
    """Copy into `model` what the document's class of that name keeps: its state dict, or a safetensors file of it.

    Raises `DataError` naming the first weight that is missing, left over or of another shape, and `ValueError` for a
    layout that the model is not of; then nothing is copied. Raises `MissingInputError` for a file that is not there.
    """
    where = str(weights) if isinstance(weights, Path) else f"weights of the layout {layout}"
    theirs = dict(_read(weights) if isinstance(weights, Path) else weights)
    own = model.state_dict()
    for name, expected in _constants(model).items():
        if name in theirs and not _is_the_same(theirs.pop(name), expected):
            raise DataError("{where}: {name} was trained, but this model computes it", where, name)
    shapes = {name: tensor.shape for name, tensor in own.items()}
    model.load_state_dict(to_ours(_rows(model, layout, own), theirs, shapes, where, "this model"))


def weights_in(model: nn.Module, layout: str) -> dict[str, Tensor]:
    """Return copies of all weights under the names of the document's class, constants that it stores included.

    Raises `ValueError` for a layout that the model is not of.
    """
    own = model.state_dict()
    theirs = to_theirs(_rows(model, layout, own), own)
    return {name: tensor.clone() for name, tensor in theirs.items()} | _constants(model)


def _rows(model: nn.Module, layout: str, own: Mapping[str, Tensor]) -> list[Row]:
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    known, rows = _table(model, layout)
    if known != layout.partition("-")[0]:
        raise ValueError(f"{type(model).__name__} has the layout {known}, not {layout}")
    return [row for row in rows if row.ours in own]


def _table(model: nn.Module, layout: str) -> tuple[str, list[Row]]:
    """The name of the model's layout, and its table."""
    match model:
        case EncoderDecoder():
            return "d2l", d2l_rows(len(model.encoder.blks), len(model.decoder.blks), mxnet=layout == "d2l-mxnet")
        case TransformerClassifier():
            return "nyu", nyu_rows(len(model.encoder.enc_layers))
        case SelfAttention_v1() | SelfAttention_v2() | CausalAttention():
            return "scratch", attention_rows(isinstance(model, SelfAttention_v1))
        case MultiHeadAttentionWrapper():
            # heads that are objects of their own: all queries, then all keys, then all values
            heads = range(model.attention.num_heads)
            theirs = (f"heads.{head}.W_{part}" for part in _PARTS for head in heads)
            return "scratch", [*layer("attention.in_projection", *theirs)]
        case MultiHeadAttention():
            return "scratch", [*attention_rows(), *layer("attention.out_projection", "out_proj")]
    raise ValueError(f"{type(model).__name__} is no class of a document whose weights have a layout")


def _constants(model: nn.Module) -> dict[str, Tensor]:
    """What the document's class stores though nothing of it is learned."""
    match model:
        case TransformerClassifier():
            embedding = model.encoder.embedding
            width = embedding.word_embeddings.weight.shape[1]
            return {NYU_POSITIONS: sinusoids(embedding.max_position_embeddings, width)}
        case CausalAttention() | MultiHeadAttention():
            return {MASK: _later(model.context_length)}
        case MultiHeadAttentionWrapper():
            heads = range(model.attention.num_heads)
            return {f"heads.{head}.{MASK}": _later(model.context_length) for head in heads}
    return {}


def _later(context_length: int) -> Tensor:
    return torch.ones(context_length, context_length).triu(1)


def _is_the_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.float(), other, rtol=0, atol=1e-3)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise MissingInputError("{path}: there is no such file", path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError("{path}: not a readable safetensors file ({error})", path, error) from None
