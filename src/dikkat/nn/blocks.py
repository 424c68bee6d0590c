"""The encoder block and the decoder block: sub-layers, each in a residual wrapper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.nn.block_settings import BlockSettings
from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.ssru import SSRU

_DEFAULTS = BlockSettings()


class EncoderBlock(nn.Module):
    """An encoder block: self-attention, then feed-forward (Vaswani et al. 2017, section 3.1).

    Every choice is a field of `BlockSettings`, given as `settings`, one by one by name, or both (a name wins). `causal`
    says that the block is always called under a causal mask, which some positions and a window make use of. Raises
    `ValueError` for a choice that no part knows and `TypeError` for a name that is no field.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        feed_forward_dim: int,
        settings: BlockSettings = _DEFAULTS,
        *,
        causal: bool = False,
        **changes: Any,
    ) -> None:
        super().__init__()
        settings = replace(settings, **changes)
        self.self_attention = settings.self_attention(model_dim, num_heads, causal=causal)
        self.feed_forward = settings.feed_forward(model_dim, feed_forward_dim)
        self.self_residual = settings.residual(model_dim)
        self.feed_forward_residual = settings.residual(model_dim)

    def forward(
        self,
        x: Float[Tensor, "*B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: SelfAttentionCache | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "*B S D"]:
        """Compute the block; with `cache` (of a language model) `x` follows the positions in it, and sees them as well.

        `position_ids` are the positions of `x` where some were left out, if its attention `supports_position_ids`.
        """
        x = self.self_residual(x, lambda y: self.self_attention(y, mask=mask, cache=cache, position_ids=position_ids))
        return self.feed_forward_residual(x, self.feed_forward)


class CrossAttendingBlock(nn.Module):
    """Base of the decoder blocks: a sub-layer that knows what was written, then cross-attention, then feed-forward.

    Choices as for `EncoderBlock`. A subclass makes the first sub-layer, for a whole target and for single steps.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        feed_forward_dim: int,
        settings: BlockSettings = _DEFAULTS,
        **changes: Any,
    ) -> None:
        super().__init__()
        settings = replace(settings, **changes)
        self._build_first(model_dim, num_heads, settings)
        self.cross_attention = settings.cross_attention(model_dim, num_heads)
        self.feed_forward = settings.feed_forward(model_dim, feed_forward_dim)
        self.self_residual = settings.residual(model_dim)
        self.cross_residual = settings.residual(model_dim)
        self.feed_forward_residual = settings.residual(model_dim)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        memory: Float[Tensor, "*B S D"],
        self_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Compute all target positions at once; `self_mask` is causal where the model predicts the next token."""
        x = self.self_residual(x, lambda y: self._first(y, self_mask))
        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(
        self,
        x: Float[Tensor, "R 1 D"],
        cache: SelfAttentionCache,
        memory: CrossAttentionCache,
        memory_mask: Bool[Tensor, "B 1 1 S"],
    ) -> Float[Tensor, "R 1 D"]:
        """Compute one more target position of R hypotheses; what came before is in the cache."""
        x = self.self_residual(x, lambda y: self._first_step(y, cache))
        x = self.cross_residual(x, lambda y: self.cross_attention.attend_memory(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def _build_first(self, model_dim: int, num_heads: int, settings: BlockSettings) -> None:
        raise NotImplementedError

    def _first(self, x: Tensor, mask: Tensor | None) -> Tensor:
        raise NotImplementedError

    def _first_step(self, x: Tensor, cache: SelfAttentionCache) -> Tensor:
        raise NotImplementedError


class DecoderBlock(CrossAttendingBlock):
    """A decoder block: masked self-attention, cross-attention, feed-forward (Vaswani et al. 2017, section 3.1).

    Choices as for `EncoderBlock`; a window looks back alone.
    """

    def _build_first(self, model_dim: int, num_heads: int, settings: BlockSettings) -> None:
        self.self_attention = settings.self_attention(model_dim, num_heads, causal=True)

    def _first(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.self_attention(x, mask=mask)

    def _first_step(self, x: Tensor, cache: SelfAttentionCache) -> Tensor:
        return self.self_attention(x, cache=cache)


class RecurrentDecoderBlock(CrossAttendingBlock):
    """A decoder block that remembers what was written in a recurrent unit: SSRU, cross-attention, feed-forward.

    Choices as for `DecoderBlock`, which it stands in for; those of self-attention change nothing. No position sees what
    follows it, so that `self_mask` changes nothing either.
    """

    def _build_first(self, model_dim: int, num_heads: int, settings: BlockSettings) -> None:
        self.recurrence = SSRU(model_dim)

    def _first(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.recurrence(x)

    def _first_step(self, x: Tensor, cache: SelfAttentionCache) -> Tensor:
        return self.recurrence.step(x, cache)
