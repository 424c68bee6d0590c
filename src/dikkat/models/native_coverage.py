"""What the native code has the arithmetic of, and whether anybody is in its way: what encoding and decoding share.

Nobody who looks on or interferes may be overlooked: a hook or an attention observer anywhere in the model, a method put
in place of another, training, a gradient or autocast, and PyTorch does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from operator import attrgetter
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from dikkat.models.decoder import Decoder
from dikkat.models.encoder import Encoder
from dikkat.native.decoder import can_step
from dikkat.native.layers import LinearWeights, NormWeights
from dikkat.native.layers_by_torch import has_tiles
from dikkat.native.quantized import PackedWeights, pack
from dikkat.native.quantized_by_torch import RoundedWeights, rounded
from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.comparison import DotComparison
from dikkat.nn.dropout import Dropout
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.few_rows import Projection
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.gated_feed_forward import GatedFeedForward
from dikkat.nn.learned_positions import LearnedPositions, NoPositions
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.norms import LayerNorm
from dikkat.nn.positions import SinusoidalPositions
from dikkat.nn.residual import PostNormResidual, PreNormResidual

COVERED = (
    Encoder, EncoderBlock, Decoder, DecoderBlock, MultiHeadAttention, FeedForward, PreNormResidual, PostNormResidual,
    Dropout, TokenEmbedding, SinusoidalPositions, LearnedPositions, NoPositions, Projection, nn.ModuleList,
    LayerNorm, nn.LayerNorm, nn.Identity,
)  # fmt: skip
"""Modules whose arithmetic the native code has. Exactly these types: a class derived from one may do something else."""

ACTIVATIONS = ("relu", "gelu")
"""Of the feed-forward network, and the ones that the native code has."""

METHODS = frozenset(("forward", "step", "project"))
"""What is called, and an instance may have replaced."""

Part = tuple[int, torch.Size]
Made = TypeVar("Made")
Weights = TypeVar("Weights", PackedWeights, RoundedWeights)
is_training = attrgetter("training")


class QuantizedWeights:
    """The matrices of a model in eight bits, made when they are first asked for, of weights that no longer change."""

    def __init__(self) -> None:
        self._packed: dict[Part, PackedWeights] = {}
        self._rounded: dict[Part, RoundedWeights] = {}
        self._kept: dict[str, object] = {}

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` gave the first time: of a model that no longer changes it is always the same."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(Made, self._kept[name])

    def of(self, weight: Tensor) -> PackedWeights:
        """For native code, of a matrix, or of some rows of one, wherever it is met again.

        Raises `ValueError` for what is no number.
        """
        part = weight.data_ptr(), weight.shape
        if part not in self._packed:
            self._packed[part] = _finite(pack(weight))
        return self._packed[part]

    def rounded(self, weight: Tensor) -> RoundedWeights:
        """The same for PyTorch."""
        part = weight.data_ptr(), weight.shape
        if part not in self._rounded:
            self._rounded[part] = _finite(rounded(weight))
        return self._rounded[part]


def modules_of(*parts: nn.Module) -> list[nn.Module]:
    """With all they consist of, in any order; `Module.modules` takes ten times as long."""
    found, left = [], list(parts)
    while left:
        module = left.pop()
        found.append(module)
        left += [part for part in module._modules.values() if part is not None]
    return found


class Bystanders:
    """Who could interfere with `model`, or look on."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = modules_of(model)
        # views, which grow with their modules
        self._own_names = [vars(module).keys() for module in self._modules]
        # each lives as long as its module, and holds whoever listens or interferes
        self._listeners: list[Sized] = [_global_forward_hooks, _global_forward_pre_hooks]
        for module in self._modules:
            self._listeners += (module._forward_hooks, module._forward_pre_hooks, vars(module).get("_observers", ()))

    def keep_away(self) -> bool:
        """Whether what follows may be native: no training, no gradient, no autocast, no observer and no hook."""
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or any(self._listeners):
            return False
        return not any(map(is_training, self._modules))

    def are_looking(self) -> bool:
        """Whether somebody is shown something of a decode, by a hook or an observer or as a reader of weights."""
        return any(self._listeners) or self._are_reading()

    def _are_reading(self) -> bool:
        return any(module.is_read for module in self._modules if isinstance(module, MultiHeadAttention))

    def have_replaced_nothing(self) -> bool:
        """Whether every module has the methods of its class."""
        return all(names.isdisjoint(METHODS) for names in self._own_names)


def are_covered(modules: Iterable[nn.Module], *more: Tensor) -> bool:
    """Whether they are of the known types, their tensors and `more` contiguous, in float32 and on the CPU."""
    modules = list(modules)
    if any(type(module) not in COVERED for module in modules):
        return False
    return all(_is_plain(tensor) for tensor in (*more, *(each for module in modules for each in _own_tensors(module))))


def have_width(modules: Iterable[nn.Module], width: int) -> bool:
    """Whether all norms among them are over so many entries."""
    return all(each.normalized_shape == (width,) for each in modules if isinstance(each, nn.LayerNorm))


def is_plain_attention(attention: MultiHeadAttention, width: int) -> bool:
    """Dot-product attention of as many key as query heads, without window or relative positions."""
    as_usual = attention.packed and attention.num_kv_heads == attention.num_heads and not attention.self_only
    as_usual = as_usual and isinstance(attention.out_projection, Projection)
    return as_usual and attention.widths[0] == width and type(attention.comparison) is DotComparison


def kind_of(
    attentions: Iterable[MultiHeadAttention],
    residuals: Iterable[PostNormResidual | PreNormResidual],
    feed_forward: FeedForward | GatedFeedForward,
) -> tuple[object, ...]:
    """What all layers must have in common."""
    heads = [(attention.num_heads, attention.head_dim) for attention in attentions]
    types = {type(residual) for residual in residuals}
    return *heads, len({*heads}) == 1, *types, feed_forward.inner.out_features, feed_forward.activation


def multiplies_in_tiles(quantized: QuantizedWeights | None) -> bool:
    """Whether PyTorch does the work of native code in bfloat16: weights in eight bits are asked for, there is no native
    code, and the processor has tiles for bfloat16.
    """
    return quantized is not None and not can_step() and has_tiles()


def linear_weights(
    linear: nn.Linear, quantized: QuantizedWeights | None, outputs: slice = slice(None)
) -> LinearWeights:
    """Of some outputs, which the tensors keep the memory of alive."""
    return matrix_weights(
        linear.weight.detach()[outputs], quantized, None if linear.bias is None else linear.bias.detach()[outputs]
    )


def matrix_weights(weight: Tensor, quantized: QuantizedWeights | None, bias: Tensor | None = None) -> LinearWeights:
    """The same of a matrix that is in no layer."""
    packed = None if quantized is None or multiplies_in_tiles(quantized) else quantized.of(weight)
    return LinearWeights(weight, bias, packed)


def norm_weights(norm: nn.Module) -> NormWeights | None:
    """None where there is no norm."""
    if not isinstance(norm, nn.LayerNorm):
        return None
    weight, bias = (None if part is None else part.detach() for part in (norm.weight, norm.bias))
    return NormWeights(weight, bias, norm.eps)


def beta_of(attention: MultiHeadAttention) -> float:
    """The inverse temperature of a plain attention."""
    comparison = attention.comparison
    assert isinstance(comparison, DotComparison)
    # of a query it is the width alone that matters
    query = torch.empty(0, attention.head_dim)
    return inverse_temperature(query, comparison.score, comparison.beta)


def _finite(weights: Weights) -> Weights:
    if not bool(weights.scale.isfinite().all()):
        raise ValueError("weights that are not finite cannot be kept in eight bits")
    return weights


def _own_tensors(module: nn.Module) -> Iterator[Tensor]:
    tensors = (*module._parameters.values(), *module._buffers.values())
    return (tensor for tensor in tensors if tensor is not None)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.is_cpu and tensor.is_contiguous()
