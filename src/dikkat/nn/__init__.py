"""The bricks of a Transformer: attention in its forms, positions, feed-forward, norms, blocks, cache and recorder."""

from dikkat.nn.blocks import (
    BlockSettings,
    DecoderBlock,
    EncoderBlock,
    PositionedDecoderBlock,
    PositionedEncoderBlock,
    PostNormResidual,
    PreNormResidual,
)
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.layers import Dropout, FeedForward, GatedFeedForward, LayerNorm, RMSNorm, TokenEmbedding
from dikkat.nn.linear_time_attention import LinearAttentionState, linear_attention
from dikkat.nn.masks import causal_mask, key_mask, valid_length_mask, window_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import attention_positions, embedding_positions
from dikkat.nn.positions import LearnedPositions, NoPositions, SinusoidalPositions
from dikkat.nn.recorder import MapName, record_attention
from dikkat.nn.relative import AlibiBias, BucketBias, RelativeKeys
from dikkat.nn.rotary import RotaryPositions
from dikkat.nn.scorers import AdditiveAttention, AdditiveScore, BilinearScore
from dikkat.nn.sliding_window import chunked_attention, sliding_window_attention
from dikkat.nn.torch_weights import load_torch, to_torch

__all__ = [
    "AdditiveAttention",
    "AdditiveScore",
    "AlibiBias",
    "BilinearScore",
    "BlockSettings",
    "BucketBias",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "GatedFeedForward",
    "LayerNorm",
    "LearnedPositions",
    "LinearAttentionState",
    "MapName",
    "MultiHeadAttention",
    "NoPositions",
    "PositionedDecoderBlock",
    "PositionedEncoderBlock",
    "PostNormResidual",
    "PreNormResidual",
    "RMSNorm",
    "RelativeKeys",
    "RotaryPositions",
    "SinusoidalPositions",
    "TokenEmbedding",
    "attention",
    "attention_positions",
    "causal_mask",
    "chunked_attention",
    "embedding_positions",
    "fused_attention",
    "key_mask",
    "linear_attention",
    "load_torch",
    "record_attention",
    "sliding_window_attention",
    "to_torch",
    "valid_length_mask",
    "window_mask",
]
