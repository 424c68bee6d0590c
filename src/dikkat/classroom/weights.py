"""Weights of the documents' own classes, into ours and back, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from dikkat.classroom.layouts import d2l as d2l_layout
from dikkat.classroom.layouts import nyu as nyu_layout
from dikkat.classroom.layouts import scratch as scratch_layout
from dikkat.classroom.nyu import TransformerClassifier
from dikkat.classroom.scratch import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
)
from dikkat.classroom.textbook import EncoderDecoder
from dikkat.models.key_table import Row, to_ours, to_theirs
from dikkat.nn.positions import sinusoids
from dikkat_runtime.errors import DataError, MissingInputError

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
            raise DataError("{where}: {name} was trained, but this model computes it").fill(where, name)
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
            sizes = len(model.encoder.blks), len(model.decoder.blks)
            return "d2l", d2l_layout.rows(*sizes, mxnet=layout == "d2l-mxnet")
        case TransformerClassifier():
            return "nyu", nyu_layout.rows(len(model.encoder.enc_layers))
        case SelfAttention_v1() | SelfAttention_v2() | CausalAttention():
            return "scratch", scratch_layout.single(isinstance(model, SelfAttention_v1))
        case MultiHeadAttentionWrapper():
            return "scratch", scratch_layout.side_by_side(model.attention.num_heads)
        case MultiHeadAttention():
            return "scratch", scratch_layout.split()
    raise ValueError(f"{type(model).__name__} is no class of a document whose weights have a layout")


def _constants(model: nn.Module) -> dict[str, Tensor]:
    """What the document's class stores though nothing of it is learned."""
    match model:
        case TransformerClassifier():
            embedding = model.encoder.embedding
            width = embedding.word_embeddings.weight.shape[1]
            return {nyu_layout.POSITIONS: sinusoids(embedding.max_position_embeddings, width)}
        case CausalAttention() | MultiHeadAttention():
            return {scratch_layout.MASK: _later(model.context_length)}
        case MultiHeadAttentionWrapper():
            heads = range(model.attention.num_heads)
            return {f"heads.{head}.{scratch_layout.MASK}": _later(model.context_length) for head in heads}
    return {}


def _later(context_length: int) -> Tensor:
    return torch.ones(context_length, context_length).triu(1)


def _is_the_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.float(), other, rtol=0, atol=1e-3)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise MissingInputError("{path}: there is no such file").fill(path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError("{path}: not a readable safetensors file ({error})").fill(path, error) from None
