"""The encoder block and the decoder block: sub-layers, each in a residual wrapper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache, StaticState
from dikkat.nn.checks import checked_head_dim
from dikkat.nn.functional import Selection
from dikkat.nn.layers import GATES, Dropout, FeedForward, GatedFeedForward, LayerNorm, Linear, named_norm
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import PositionChoice, Positions, attention_positions
from dikkat.nn.scorers import DisentangledScore, HeadScore, SoftcappedScore


class SSRU(nn.Module):
    """Compute `relu(c_t)` with `c_t = f_t c_(t-1) + (1 - f_t) W x_t` and `f_t = sigmoid(W_f x_t + b_f)`.

    This is the unit of Kim et al. 2019, "From Research to Production and Back", section 3.1; `c_0` is zero.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.content = Linear(model_dim, model_dim, bias=False)
        self.forget = Linear(model_dim, model_dim)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Compute all positions, each from itself and those before it."""
        forget, fresh = self._gates(x)
        state = torch.zeros_like(x[:, 0])
        states = []
        for position in range(x.shape[1]):
            state = forget[:, position] * state + fresh[:, position]
            states.append(state)
        return torch.stack(states, dim=1).relu()

    def step(self, x: Float[Tensor, "R 1 D"], cache: SelfAttentionCache | StaticState) -> Float[Tensor, "R 1 D"]:
        """Compute one more position; the cache keeps the state of each, so that search may go back to any."""
        forget, fresh = self._gates(x)
        state = fresh if cache.length == 0 else forget * cache.newest()[:, 0] + fresh
        # (R, 1, D) -> (R, 1, 1, D): one head, whose keys are the states, without values
        cache.append(state[:, None], state[:, None, :, :0])
        return state.relu()

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        forget = torch.sigmoid(self.forget(x))
        return forget, (1 - forget) * self.content(x)


# Residual wrappers: the order of residual sum, dropout and norm.

SubLayer = Callable[[Tensor], Tensor]


class _Residual(nn.Module):
    def __init__(self, model_dim: int, dropout: float = 0.0, eps: float = 1e-5, norm: str = "layer") -> None:
        super().__init__()
        # over the last dimension only: a norm over positions would leak padding and future (fault F34)
        self.norm = named_norm(norm, model_dim, eps)
        self.dropout = Dropout(dropout)

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape != y.shape:
            raise ValueError(
                f"a residual sum needs equal shapes, but the input is {tuple(x.shape)} and the output {tuple(y.shape)}"
            )
        return self.dropout.add_to(x, y)


class PostNormResidual(_Residual):
    """`norm(x + dropout(sub_layer(x)))`: the order of the paper (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        return self.norm(self._add(x, sub_layer(x)))


class PreNormResidual(_Residual):
    """`x + dropout(sub_layer(norm(x)))` (Xiong et al. 2020); the stack ends in a norm of its own."""

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        x, normed = self.norm.branched(x) if isinstance(self.norm, LayerNorm) else (x, self.norm(x))
        return self._add(x, sub_layer(normed))


class OutputNormResidual(_Residual):
    """`x + dropout(norm(sub_layer(x)))` (OLMo Team 2025, section 2.1); the stack ends in a norm of its own."""

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        return self._add(x, self.norm(sub_layer(x)))


class BothNormsResidual(_Residual):
    """`x + dropout(output_norm(sub_layer(norm(x))))` (Gemma Team 2024, section 2)."""

    def __init__(self, model_dim: int, dropout: float = 0.0, eps: float = 1e-5, norm: str = "layer") -> None:
        super().__init__(model_dim, dropout, eps, norm)
        self.output_norm = named_norm(norm, model_dim, eps)

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        return self._add(x, self.output_norm(sub_layer(self.norm(x))))


Residual = PostNormResidual | PreNormResidual | OutputNormResidual | BothNormsResidual
_RESIDUALS: dict[str, type[Residual]] = {
    "post": PostNormResidual, "pre": PreNormResidual, "output": OutputNormResidual, "both": BothNormsResidual,
}  # fmt: skip


def residual(placement: str, model_dim: int, dropout: float, eps: float, norm: str = "layer") -> Residual:
    """The residual wrapper of a `norm_placement` around the norm "layer" or "rms"."""
    if placement not in _RESIDUALS:
        raise ValueError(f"norm placement must be one of {', '.join(_RESIDUALS)}, not {placement!r}")
    return _RESIDUALS[placement](model_dim, dropout, eps, norm)


# The settings that encoder and decoder blocks share: every choice but their sizes, and the parts it leads to.


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
    """"post", "pre", "output" or "both"."""
    parallel_residual: bool = False
    """Whether both sub-layers of an encoder block read its input, and are added to it together."""
    norm_eps: float = 1e-5
    attention_bias: bool = True
    """Whether the projections of attention have a bias."""
    attention_output_bias: bool | None = None
    """Whether the last of them has one; left out, as the others."""
    head_dim: int | None = None
    """K; left out, D / H."""
    num_kv_heads: int | None = None
    """Heads of keys and values; left out, H."""
    score: HeadScore | Literal["disentangled"] = "scaled_dot"
    """"disentangled" is that of DeBERTa, in self-attention alone."""
    relative_span: int | None = None
    """Vectors of a disentangled score on each side."""
    relative_range: int | None = None
    """Distance that its buckets reach; left out, each distance has a vector."""
    attention_softcap: float | None = None
    """Limit of the scores; left out, there is none."""
    query_key_norm: Literal["head", "all"] | None = None
    inverse_temperature: float | None = None
    """Beta, which multiplies the scores; left out, 1/sqrt(K) for "scaled_dot" and 1 for the others."""
    selection: Selection = "soft"
    positions: PositionChoice = "none"
    """Only those that enter in attention act here, and in self-attention alone."""
    relative_bias: bool = False
    """Whether self-attention has a bias of buckets of distances, whatever the positions."""
    rotary_frequencies: Sequence[float] | None = None
    """Of rotary positions; left out, the usual ones."""
    attention_window: int | None = None
    """How far self-attention sees; left out, everywhere."""
    global_tokens: int = 0
    """Positions at the start that see all and are seen by all in spite of the window."""

    def self_attention(self, model_dim: int, num_heads: int, *, causal: bool) -> MultiHeadAttention:
        """Build the self-attention of a block; `causal` says that it is always called under a causal mask."""
        head_dim = checked_head_dim(model_dim, num_heads, self.head_dim)
        kind = "relative_buckets" if self.relative_bias else self.positions
        frequencies = self.rotary_frequencies
        return self._attention(
            model_dim,
            num_heads,
            positions=attention_positions(kind, num_heads, head_dim, causal=causal, frequencies=frequencies),
            query_key_norm=self.query_key_norm,
            norm_eps=self.norm_eps,
            score=self._score(num_heads, head_dim),
            beta=None if self.attention_softcap is not None else self.inverse_temperature,
            window=self.attention_window,
            global_tokens=self.global_tokens,
            causal=causal,
        )

    def cross_attention(self, model_dim: int, num_heads: int) -> MultiHeadAttention:
        """Build the cross-attention of a block."""
        score = "scaled_dot" if self.score == "disentangled" else self.score
        return self._attention(model_dim, num_heads, score=score, beta=self.inverse_temperature)

    def _score(self, num_heads: int, head_dim: int) -> HeadScore:
        if self.attention_softcap is not None:
            beta = head_dim**-0.5 if self.inverse_temperature is None else self.inverse_temperature
            return SoftcappedScore(self.attention_softcap, beta)
        if self.score != "disentangled":
            return self.score
        if self.relative_span is None:
            raise ValueError("a disentangled score needs a relative_span")
        return DisentangledScore(num_heads, head_dim, self.relative_span, self.relative_range)

    def feed_forward(self, model_dim: int, feed_forward_dim: int) -> FeedForward | GatedFeedForward:
        """Build the feed-forward network of a block."""
        if self.activation in GATES:
            return GatedFeedForward(model_dim, feed_forward_dim, activation=self.activation)
        return FeedForward(model_dim, feed_forward_dim, activation=self.activation)

    def residual(self, model_dim: int) -> Residual:
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
            selection=self.selection,
            **own,
        )


_DEFAULTS = BlockSettings()


class EncoderBlock(nn.Module):
    """An encoder block: self-attention, then feed-forward (Vaswani et al. 2017, section 3.1).

    Every choice is a field of `BlockSettings`, given as `settings`, one by one by name, or both (a name wins). `causal`
    says that the block is always called under a causal mask, which some positions and a window make use of. Raises
    `ValueError` for a choice that no part knows and `TypeError` for a name that is not a field.
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
        self.parallel_residual = settings.parallel_residual

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

        def attend(y: Tensor) -> Tensor:
            attended: Tensor = self.self_attention(y, mask=mask, cache=cache, position_ids=position_ids)
            return attended

        if self.parallel_residual:
            attended = attend(self.self_residual.norm(x))
            return self.self_residual.dropout.add_to(
                x, attended + self.feed_forward(self.feed_forward_residual.norm(x))
            )
        return self.feed_forward_residual(self.self_residual(x, attend), self.feed_forward)


class CrossAttendingBlock(nn.Module):
    """Base of the decoder blocks: a sub-layer that knows what was written, then cross-attention, then feed-forward.

    Choices as for `EncoderBlock`. A subclass makes the first sub-layer, for a whole target and for single steps.
    """

    def __init__(
        self, model_dim: int, num_heads: int, feed_forward_dim: int, settings: BlockSettings = _DEFAULTS, **changes: Any
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
        x = self.self_residual(self._entering(x), lambda y: self._first(y, self_mask))
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
        x = self.self_residual(self._entering(x, cache.length), lambda y: self._first_step(y, cache))
        x = self.cross_residual(x, lambda y: self.cross_attention.attend_memory(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def _entering(self, x: Tensor, offset: int = 0) -> Tensor:
        """Return what the first sub-layer reads and is added to, whose first row is at position `offset`."""
        return x

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


# Blocks that add the positions to their input once more, for stacks so deep that those of the embeddings fade.


class PositionedEncoderBlock(EncoderBlock):
    """An `EncoderBlock` whose input gets `positions` added, as in every layer of Dehghani et al. (2019, section 2.1).

    `positions` may be shared by all blocks or be each one's own; the other choices are those of `EncoderBlock`.
    """

    def __init__(self, positions: Positions, *sizes: Any, **choices: Any) -> None:
        super().__init__(*sizes, **choices)
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "*B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: SelfAttentionCache | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "*B S D"]:
        x = self.positions(x, offset=0 if cache is None else cache.length, position_ids=position_ids)
        # where distances count, attention goes by the row and what the mask says
        return super().forward(x, mask, cache, position_ids if self.self_attention.supports_position_ids else None)


class PositionedDecoderBlock(DecoderBlock):
    """A `DecoderBlock` whose input gets `positions` added (Dehghani et al. 2019, section 2.1).

    See `PositionedEncoderBlock`.
    """

    def __init__(self, positions: Positions, *sizes: Any, **choices: Any) -> None:
        super().__init__(*sizes, **choices)
        self.positions = positions

    def _entering(self, x: Tensor, offset: int = 0) -> Tensor:
        return self.positions(x, offset=offset)
