"""Weights of PyTorch's Transformer modules, copied into ours; every one of ours must be filled."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.feed_forward import FeedForward


def shake(module: nn.Module) -> None:
    """No bias at 0, no norm at 1: what is left at its initial value would hide a swapped weight."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))


def _attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> dict[str, Tensor | None]:
    source: dict[str, Tensor | None] = {"out_projection.weight": theirs.out_proj.weight}
    if ours.packed:
        source["in_projection.weight"] = theirs.in_proj_weight
        source["in_projection.bias"] = theirs.in_proj_bias
    else:
        biases = [None] * 3 if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)
        weights = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            source[f"{name}_projection.weight"], source[f"{name}_projection.bias"] = weight, bias
    source["out_projection.bias"] = theirs.out_proj.bias
    return source


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    ours.load_state_dict({name: tensor for name, tensor in _attention(ours, theirs).items() if tensor is not None})


def _copy_feed_forward(ours: FeedForward, first: nn.Linear, second: nn.Linear) -> None:
    ours.inner.load_state_dict(first.state_dict())
    ours.outer.load_state_dict(second.state_dict())


def copy_encoder_block(ours: EncoderBlock, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    _copy_feed_forward(ours.feed_forward, theirs.linear1, theirs.linear2)
    ours.self_residual.norm.load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward_residual.norm.load_state_dict(theirs.norm2.state_dict())


def copy_decoder_block(ours: DecoderBlock, theirs: nn.TransformerDecoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    _copy_feed_forward(ours.feed_forward, theirs.linear1, theirs.linear2)
    ours.self_residual.norm.load_state_dict(theirs.norm1.state_dict())
    ours.cross_residual.norm.load_state_dict(theirs.norm2.state_dict())
    ours.feed_forward_residual.norm.load_state_dict(theirs.norm3.state_dict())
