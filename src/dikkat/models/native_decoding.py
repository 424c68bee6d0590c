"""Which decodes step natively, and what the native step computes with: the one place where that is decided.

Nobody who looks on or interferes may be overlooked: a hook or an attention observer anywhere in the model, a method put
in place of another, training, a gradient or autocast, and PyTorch takes the step. Who only reads attention weights is
given those of the native step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from dikkat.models.decoder import Decoder
from dikkat.native.decoder import DecoderSteps, DecoderWeights, LinearWeights, NormWeights, can_step
from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.blocks import DecoderBlock
from dikkat.nn.cache import DecoderCache, SelfAttentionCache
from dikkat.nn.comparison import DotComparison
from dikkat.nn.dropout import Dropout
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.learned_positions import LearnedPositions, NoPositions
from dikkat.nn.positions import SinusoidalPositions
from dikkat.nn.residual import PostNormResidual, PreNormResidual

COVERED = (
    Decoder, DecoderBlock, MultiHeadAttention, FeedForward, PreNormResidual, PostNormResidual, Dropout, TokenEmbedding,
    SinusoidalPositions, LearnedPositions, NoPositions, nn.ModuleList, nn.Linear, nn.LayerNorm, nn.Identity,
)  # fmt: skip
"""Modules whose arithmetic the native step has. Exactly these types: a class derived from one may do something else."""


ACTIVATIONS = ("relu", "gelu")
"""Of the feed-forward network, and the ones that the native step has."""

METHODS = frozenset(("forward", "step", "project"))
"""What a step calls, and an instance may have replaced."""


class DecoderParts:
    """What a step of a model runs through, and whether the native step does the same.

    Weights are used where they lie and nothing of them is packed, so those of a model in training are never stale.
    """

    def __init__(
        self,
        model: nn.Module,
        embedding: nn.Module,
        positions: nn.Module,
        dropout: nn.Module,
        decoder: nn.Module,
        output_weight: Tensor,
    ) -> None:
        """`model` is what the parts are parts of."""
        # so much for the types; nothing is read off the parts before they are known to be covered
        self._embedding, self.decoder = cast(TokenEmbedding, embedding), cast(Decoder, decoder)
        self.positions, self._output = positions, output_weight
        self._modules = [module for part in (embedding, positions, dropout, decoder) for module in part.modules()]
        self._everything = list(model.modules())
        # each lives as long as its module, and holds whoever listens or interferes
        self._listeners: list[Sized] = [_global_forward_hooks, _global_forward_pre_hooks]
        for module in self._everything:
            self._listeners += (module._forward_hooks, module._forward_pre_hooks, vars(module).get("_observers", ()))

    def can_begin(self) -> bool:
        """Whether a decode may begin natively: there is a native step, it is the same, and nobody is in its way."""
        replaced = any(not METHODS.isdisjoint(vars(module)) for module in self._everything)
        return can_step() and self.are_undisturbed() and not replaced and self.are_covered()

    def are_undisturbed(self) -> bool:
        """Whether the next step may be native: no training, no gradient, no autocast, no observer and no hook."""
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or any(self._listeners):
            return False
        return not any(module.training for module in self._everything)

    def are_covered(self) -> bool:
        """Whether the native step has all this arithmetic: plain dot-product attention of as many key as query heads,
        ReLU or GELU, layer norm, positions that are added to the embeddings, in float32 on the CPU.
        """
        if any(type(module) not in COVERED for module in self._modules):
            return False
        tensors = [self._output, *(tensor for module in self._modules for tensor in _own_tensors(module))]
        plain = all(_is_plain_tensor(tensor) for tensor in tensors)
        return plain and self._embedding.weight.shape == self._output.shape and self._layers_are_alike()

    def _layers_are_alike(self) -> bool:
        """And all of one width, as a configuration always makes them."""
        blocks, width = _blocks(self.decoder), self._output.shape[1]
        norms = [module for module in self._modules if isinstance(module, nn.LayerNorm)]
        return (
            all(_is_plain_attention(attention, width) for block in blocks for attention in _attentions(block))
            and len({_kind(block) for block in blocks}) == 1
            and blocks[0].feed_forward.activation in ACTIVATIONS
            and all(norm.normalized_shape == (width,) for norm in norms)
            and (isinstance(self.decoder.final_norm, nn.Identity) or not _is_post_norm(blocks[0]))
        )

    def attentions(self) -> list[MultiHeadAttention]:
        """Of covered parts, in the order of a step: self- and cross-attention, a layer."""
        return [attention for block in _blocks(self.decoder) for attention in _attentions(block)]

    def weights(self) -> DecoderWeights:
        """Of covered parts; the tensors keep the memory of the parameters alive."""
        blocks = _blocks(self.decoder)
        first, post_norm, final = blocks[0], _is_post_norm(blocks[0]), self.decoder.final_norm
        norms = [_norm(residual.norm) for block in blocks for residual in _residuals(block)]
        linears = [linear for block in blocks for linear in _linears(block)]
        return DecoderWeights(
            num_heads=first.self_attention.num_heads,
            head_dim=first.self_attention.head_dim,
            post_norm=post_norm,
            gelu=first.feed_forward.activation == "gelu",
            embedding=self._embedding.weight.detach(),
            embedding_scale=self._embedding.scale,
            linears=(*linears, LinearWeights(self._output.detach())),
            norms=(None, *norms) if post_norm else (*norms, _norm(final)),
            betas=tuple(map(_beta, self.attentions())),
        )


class NativeCache(DecoderCache):
    """A cache that native steps fill; PyTorch's step finds everything in it, and from then on has it to itself."""

    def __init__(
        self, parts: DecoderParts, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], rows: int
    ) -> None:
        """`rows` for each sentence; `parts` must say that they can begin."""
        super().__init__(*parts.decoder.read_source(memory, source_mask), rows)
        pairs = [(layer.key, layer.value) for layer in self.cross_attention]
        self._parts, self._attentions = parts, parts.attentions()
        # (B, 1, 1, S) -> (B, S)
        self._steps: DecoderSteps | None = DecoderSteps(parts.weights(), pairs, self.mask[:, 0, 0], rows)
        self._nowhere = torch.zeros(1, 1, memory.shape[-1])

    @property
    def steps_natively(self) -> bool:
        """Whether the next step is native."""
        return self._steps is not None and self._parts.are_undisturbed()

    @property
    def length(self) -> int:
        return super().length if self._steps is None else self._steps.length

    @property
    def self_attention(self) -> list[SelfAttentionCache]:
        """Only PyTorch's step asks for it."""
        self._leave_to_pytorch()
        return self._self_attention

    @self_attention.setter
    def self_attention(self, layers: list[SelfAttentionCache]) -> None:
        self._self_attention = layers

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        """The logits of `EncoderDecoder.step`; only where `steps_natively`."""
        steps = self._steps
        assert steps is not None
        # added to nothing, positions are themselves: they grow, or refuse to, as they would for PyTorch
        position = self._parts.positions(self._nowhere, offset=steps.length)[0, 0]
        read = [place for place, attention in enumerate(self._attentions) if attention.is_read]
        seen = {place: steps.room_for_weights(place) for place in read}
        logits = steps.step(tokens, position, seen)
        for place, weights in seen.items():
            self._attentions[place].give_weights(self._as_in_pytorch(place, weights))
        return logits

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        if self._steps is not None and len(index) == self._steps.rows:
            self._steps.reorder(index)
        else:
            super().reorder(index)

    def drop(self, keep: Int[Tensor, "B2"]) -> None:
        if self._steps is not None:
            self._steps.drop(keep)
        else:
            super().drop(keep)

    def _as_in_pytorch(self, place: int, weights: Float[Tensor, "R H S"]) -> Float[Tensor, "..."]:
        """(R, H, 1, S) of self-attention; of cross-attention (B, H, rows, S), the rows of a sentence as its queries."""
        if place % 2 == 0:
            return weights[:, :, None]
        grouped = weights[..., : self.mask.shape[-1]].unflatten(0, (-1, self.rows_per_sentence))
        return grouped.transpose(1, 2)

    def _leave_to_pytorch(self) -> None:
        if (steps := self._steps) is None:
            return
        self._steps = None
        if steps.length:
            for own, (key, value) in zip(self._self_attention, steps.keys_and_values(), strict=True):
                own.append(key, value)
        kept = torch.tensor(steps.sentences, dtype=torch.int64)
        for layer in self.cross_attention:
            layer.key, layer.value = layer.key[kept], layer.value[kept]
        self.mask = self.mask[kept]


def _own_tensors(module: nn.Module) -> Iterator[Tensor]:
    tensors = (*module._parameters.values(), *module._buffers.values())
    return (tensor for tensor in tensors if tensor is not None)


def _is_plain_tensor(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.is_cpu and tensor.is_contiguous()


def _is_plain_attention(attention: MultiHeadAttention, width: int) -> bool:
    as_usual = attention.packed and attention.num_kv_heads == attention.num_heads and not attention.self_only
    return as_usual and attention.widths[0] == width and type(attention.comparison) is DotComparison


def _kind(block: DecoderBlock) -> tuple[object, ...]:
    """What all layers must have in common."""
    heads = [(attention.num_heads, attention.head_dim) for attention in _attentions(block)]
    residuals = {type(residual) for residual in _residuals(block)}
    inner = block.feed_forward.inner
    return *heads, len({*heads}) == 1, *residuals, inner.out_features, block.feed_forward.activation


def _blocks(decoder: Decoder) -> list[DecoderBlock]:
    return [cast(DecoderBlock, block) for block in decoder.blocks]


def _attentions(block: DecoderBlock) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    return block.self_attention, block.cross_attention


def _residuals(block: DecoderBlock) -> tuple[PostNormResidual | PreNormResidual, ...]:
    return block.self_residual, block.cross_residual, block.feed_forward_residual


def _is_post_norm(block: DecoderBlock) -> bool:
    return isinstance(block.self_residual, PostNormResidual)


def _linears(block: DecoderBlock) -> tuple[LinearWeights, ...]:
    """In the order of the step."""
    own, cross, feed_forward = block.self_attention, block.cross_attention, block.feed_forward
    query = _linear(cross.in_projection, cross.splits[0])
    return (
        _linear(own.in_projection), _linear(own.out_projection), query, _linear(cross.out_projection),
        _linear(feed_forward.inner), _linear(feed_forward.outer),
    )  # fmt: skip


def _linear(linear: nn.Linear, outputs: int | None = None) -> LinearWeights:
    weight, bias = linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
    if outputs is not None:
        weight, bias = weight[:outputs], None if bias is None else bias[:outputs]
    return LinearWeights(weight, bias)


def _norm(norm: nn.Module) -> NormWeights | None:
    if not isinstance(norm, nn.LayerNorm):
        return None
    weight, bias = (None if part is None else part.detach() for part in (norm.weight, norm.bias))
    return NormWeights(weight, bias, norm.eps)


def _beta(attention: MultiHeadAttention) -> float:
    comparison = attention.comparison
    assert isinstance(comparison, DotComparison)
    # of a query it is the width alone that matters
    query = torch.empty(0, attention.head_dim)
    return inverse_temperature(query, comparison.score, comparison.beta)
