"""The encoder block and the decoder block: sub-layers, each in a residual wrapper."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.residual import residual


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward (Vaswani et al. 2017, section 3.1)."""

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        feed_forward_dim: int,
        *,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: str = "relu",
        norm_placement: str = "post",
        norm_eps: float = 1e-5,
        attention_bias: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(model_dim, num_heads, bias=attention_bias, dropout=attention_dropout)
        self.feed_forward = FeedForward(model_dim, feed_forward_dim, activation=activation)
        self.self_residual = residual(norm_placement, model_dim, dropout, norm_eps)
        self.feed_forward_residual = residual(norm_placement, model_dim, dropout, norm_eps)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "B S D"]:
        x = self.self_residual(x, lambda y: self.self_attention(y, mask=mask))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention, feed-forward (Vaswani et al. 2017, section 3.1)."""

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        feed_forward_dim: int,
        *,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: str = "relu",
        norm_placement: str = "post",
        norm_eps: float = 1e-5,
        attention_bias: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(model_dim, num_heads, bias=attention_bias, dropout=attention_dropout)
        self.cross_attention = MultiHeadAttention(model_dim, num_heads, bias=attention_bias, dropout=attention_dropout)
        self.feed_forward = FeedForward(model_dim, feed_forward_dim, activation=activation)
        self.self_residual = residual(norm_placement, model_dim, dropout, norm_eps)
        self.cross_residual = residual(norm_placement, model_dim, dropout, norm_eps)
        self.feed_forward_residual = residual(norm_placement, model_dim, dropout, norm_eps)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        self_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """All target positions at once; `self_mask` must be causal for a model that is to predict the next token."""
        x = self.self_residual(x, lambda y: self.self_attention(y, mask=self_mask))
        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(
        self,
        x: Float[Tensor, "R 1 D"],
        cache: SelfAttentionCache,
        memory: CrossAttentionCache,
        memory_mask: Bool[Tensor, "B 1 1 S"],
    ) -> Float[Tensor, "R 1 D"]:
        """One more target position of R hypotheses; what came before is in the cache."""
        x = self.self_residual(x, lambda y: self.self_attention(y, cache=cache))
        x = self.cross_residual(x, lambda y: self.cross_attention.attend_memory(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)
