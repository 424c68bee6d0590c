"""The settings that encoder and decoder blocks share: every choice but their sizes, and the parts it leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dikkat.nn.checks import checked_head_dim
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.gated_feed_forward import GATES, GatedFeedForward
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import PositionChoice, attention_positions
from dikkat.nn.residual import PostNormResidual, PreNormResidual, residual
from dikkat.nn.scorers import HeadScore
from dikkat.nn.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """The choices of a block. A name that no part knows raises `ValueError` where the part is built."""

    dropout: float = 0.0
    """Probability of dropping an entry of a sub-layer's output."""
    attention_dropout: float = 0.0
    """Probability of dropping an attention weight."""
    activation: str = "relu"
    """Of the feed-forward network: "relu", "gelu", "gelu_tanh" or "silu", or gated, "geglu" or "swiglu"."""
    norm: str = "layer"
    """"layer" or "rms"."""
    norm_placement: str = "post"
    """"post" or "pre"."""
    norm_eps: float = 1e-5
    attention_bias: bool = True
    """Whether the projections of attention have a bias."""
    attention_output_bias: bool | None = None
    """Whether the last of them has one; left out, as the others."""
    head_dim: int | None = None
    """K; left out, D / H."""
    num_kv_heads: int | None = None
    """Heads of keys and values; left out, H."""
    score: HeadScore = "scaled_dot"
    inverse_temperature: float | None = None
    """Beta, which multiplies the scores; left out, 1/sqrt(K) for "scaled_dot" and 1 for the others."""
    selection: Selection = "soft"
    positions: PositionChoice = "none"
    """Only those that enter in attention act here, and in self-attention alone."""
    attention_window: int | None = None
    """How far self-attention sees; left out, everywhere."""
    global_tokens: int = 0
    """Positions at the start that see all and are seen by all in spite of the window."""

    def self_attention(self, model_dim: int, num_heads: int, *, causal: bool) -> MultiHeadAttention:
        """Build the self-attention of a block; `causal` says that it is always called under a causal mask."""
        head_dim = checked_head_dim(model_dim, num_heads, self.head_dim)
        return self._attention(
            model_dim,
            num_heads,
            positions=attention_positions(self.positions, num_heads, head_dim, causal=causal),
            window=self.attention_window,
            global_tokens=self.global_tokens,
            causal=causal,
        )

    def cross_attention(self, model_dim: int, num_heads: int) -> MultiHeadAttention:
        """Build the cross-attention of a block."""
        return self._attention(model_dim, num_heads)

    def feed_forward(self, model_dim: int, feed_forward_dim: int) -> FeedForward | GatedFeedForward:
        """Build the feed-forward network of a block."""
        if self.activation in GATES:
            return GatedFeedForward(model_dim, feed_forward_dim, activation=self.activation)
        return FeedForward(model_dim, feed_forward_dim, activation=self.activation)

    def residual(self, model_dim: int) -> PostNormResidual | PreNormResidual:
        """Build the residual wrapper of one sub-layer."""
        return residual(self.norm_placement, model_dim, self.dropout, self.norm_eps, self.norm)

    def _attention(self, model_dim: int, num_heads: int, **own: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            model_dim,
            num_heads,
            head_dim=self.head_dim,
            num_kv_heads=self.num_kv_heads,
            bias=self.attention_bias,
            output_bias=self.attention_output_bias,
            dropout=self.attention_dropout,
            score=self.score,
            beta=self.inverse_temperature,
            selection=self.selection,
            **own,
        )
