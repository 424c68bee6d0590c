"""The bricks of a Transformer: attention, positions, feed-forward, residual order, blocks, cache and recorder."""

from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.dropout import Dropout
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.positions import SinusoidalPositions
from dikkat.nn.recorder import MapName, record_attention
from dikkat.nn.residual import PostNormResidual, PreNormResidual

__all__ = [
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "MapName",
    "MultiHeadAttention",
    "PostNormResidual",
    "PreNormResidual",
    "SinusoidalPositions",
    "TokenEmbedding",
    "record_attention",
]
