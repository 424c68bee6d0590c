"""Weights of PyTorch's Transformer modules in ours, by the library's own table."""

from __future__ import annotations

import torch
from torch import nn

from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.torch_weights import load_torch


def shake(module: nn.Module) -> None:
    """No bias at 0, no norm at 1: what is left at its initial value would hide a swapped weight."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    load_torch(ours, theirs.state_dict())


def copy_encoder_block(ours: EncoderBlock, theirs: nn.TransformerEncoderLayer) -> None:
    load_torch(ours, theirs.state_dict())


def copy_decoder_block(ours: DecoderBlock, theirs: nn.TransformerDecoderLayer) -> None:
    load_torch(ours, theirs.state_dict())
