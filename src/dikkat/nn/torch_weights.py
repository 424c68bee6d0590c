"""PyTorch's names for the weights of our modules, as one reversible table, and the way there and back.

`torch.nn.MultiheadAttention` keeps query, key and value packed where they have one width, as we do; where they do not,
it splits the weights but keeps the biases packed, so that one name of theirs may stand for several of ours, stacked.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dikkat.nn.blocks import DecoderBlock, EncoderBlock, PositionedDecoderBlock, PositionedEncoderBlock
from dikkat.nn.layers import FeedForward
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.scorers import DotProductScorer

Ours = MultiHeadAttention | EncoderBlock | DecoderBlock
Row = tuple[str, tuple[str, ...]]
"""A name of theirs, and the names of ours that it holds one above the other."""

ATTENTION: tuple[Row, ...] = (
    ("in_proj_weight", ("in_projection.weight",)),
    ("in_proj_bias", ("in_projection.bias",)),
    ("q_proj_weight", ("query_projection.weight",)),
    ("k_proj_weight", ("key_projection.weight",)),
    ("v_proj_weight", ("value_projection.weight",)),
    ("in_proj_bias", ("query_projection.bias", "key_projection.bias", "value_projection.bias")),
    ("out_proj.weight", ("out_projection.weight",)),
    ("out_proj.bias", ("out_projection.bias",)),
)
FEED_FORWARD: tuple[Row, ...] = tuple(
    (f"{theirs}.{kind}", (f"{ours}.{kind}",))
    for theirs, ours in (("linear1", "feed_forward.inner"), ("linear2", "feed_forward.outer"))
    for kind in ("weight", "bias")
)


def _within(theirs: str, ours: str) -> tuple[Row, ...]:
    return tuple((f"{theirs}.{name}", tuple(f"{ours}.{part}" for part in parts)) for name, parts in ATTENTION)


def _norms(*residuals: str) -> tuple[Row, ...]:
    return tuple(
        (f"norm{number}.{kind}", (f"{name}.norm.{kind}",))
        for number, name in enumerate(residuals, start=1)
        for kind in ("weight", "bias")
    )


ENCODER_BLOCK = (
    *_within("self_attn", "self_attention"),
    *FEED_FORWARD,
    *_norms("self_residual", "feed_forward_residual"),
)
DECODER_BLOCK = (
    *_within("self_attn", "self_attention"),
    *_within("multihead_attn", "cross_attention"),
    *FEED_FORWARD,
    *_norms("self_residual", "cross_residual", "feed_forward_residual"),
)


def to_torch(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the weights under PyTorch's names, for `load_state_dict` of its counterpart.

    The counterpart of a block is a `nn.TransformerEncoderLayer` or `nn.TransformerDecoderLayer` of the same sizes and
    activation, `norm_first` for pre-norm. Raises `ValueError` for a module that computes what PyTorch's cannot, and
    `TypeError` for one that is neither an attention nor a block.
    """
    convertible = _convertible(module)
    own = convertible.state_dict()
    return {theirs: torch.cat([own[name] for name in names]).clone() for theirs, names in _rows(convertible, own)}


def load_torch(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy the `state_dict` of PyTorch's counterpart into `module`, all of it.

    Raises `ValueError` naming the first weight that is missing, left over or of another shape; then nothing is copied.
    Raises `TypeError` for a module that is neither an attention nor a block.
    """
    convertible = _convertible(module)
    own = convertible.state_dict()
    rows = _rows(convertible, own)
    if left := weights.keys() - {theirs for theirs, _ in rows}:
        raise ValueError(f"weight {min(left)} has no place in this {type(module).__name__}")
    filled: dict[str, Tensor] = {}
    for theirs, names in rows:
        if theirs not in weights:
            raise ValueError(f"weight {theirs} is missing")
        sizes = [own[name].shape[0] for name in names]
        expected = (sum(sizes), *own[names[0]].shape[1:])
        if tuple(weights[theirs].shape) != expected:
            raise ValueError(f"weight {theirs} must have the shape {expected}, not {tuple(weights[theirs].shape)}")
        filled |= dict(zip(names, weights[theirs].split(sizes), strict=True))
    module.load_state_dict(filled)


def _rows(module: Ours, own: Mapping[str, Tensor]) -> list[Row]:
    """The rows of the table that this module has: packed or not, with biases or without."""
    table = ATTENTION
    if isinstance(module, EncoderBlock):
        table = ENCODER_BLOCK
    elif isinstance(module, DecoderBlock):
        table = DECODER_BLOCK
    return [(theirs, names) for theirs, names in table if names[0] in own]


def _convertible(module: nn.Module) -> Ours:
    """The module itself, where PyTorch has a counterpart that computes the same."""
    if not isinstance(module, Ours):
        raise TypeError(
            "PyTorch has counterparts of MultiHeadAttention, EncoderBlock and DecoderBlock,"
            f" not of {type(module).__name__}; convert block by block, as in model.encoder.blocks[0]"
        )
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            _refuse_attention(part)
    if isinstance(module, MultiHeadAttention):
        return module
    if isinstance(module, PositionedEncoderBlock | PositionedDecoderBlock):
        raise ValueError("PyTorch's layers add no positions to their input, but this block does")
    if not isinstance(module.feed_forward, FeedForward):
        raise ValueError(
            f"PyTorch's layers have no gated feed-forward, but activation is {module.feed_forward.activation}"
        )
    if not isinstance(module.self_residual.norm, nn.LayerNorm):
        raise ValueError('PyTorch\'s layers have layer norm only, but norm is "rms"')
    return module


def _refuse_attention(module: MultiHeadAttention) -> None:
    if isinstance(module.out_projection, nn.Identity):
        raise ValueError("PyTorch's attention has an output projection, but output_projection is False")
    model_dim = module.out_projection.out_features
    for name, theirs, value in (
        ("num_kv_heads", module.num_heads, module.num_kv_heads),
        ("num_heads x head_dim", model_dim, module.num_heads * module.head_dim),
        ("query_dim", model_dim, module.widths[0]),
    ):
        if value != theirs:
            raise ValueError(f"in PyTorch's attention {name} must be {theirs}, not {value}")
    plain = isinstance(module.comparison, DotProductScorer) and module.comparison.score == "scaled_dot"
    if not plain or module.comparison.beta is not None or module.self_only:
        raise ValueError("PyTorch's attention has the scaled dot score alone: no other score, positions or window")
