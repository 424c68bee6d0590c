"""A model as a list of named parts with their sizes and parameters, ready to be drawn.

An encoder-decoder is two stacks. A classifier or a language model is one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import Factory
from dikkat.nn.blocks import (
    CrossAttendingBlock,
    DecoderBlock,
    EncoderBlock,
    PositionedDecoderBlock,
    PositionedEncoderBlock,
    RecurrentDecoderBlock,
)
from dikkat.nn.layers import TokenEmbedding
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.localization import localized, translated

PartKind = Literal["embedding", "positions", "attention", "recurrence", "feed_forward", "norm", "output", "softmax"]


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one box of a drawing."""

    kind: PartKind
    title: str
    sizes: tuple[str, ...] = ()
    """Facts about the part, a line each."""
    parameters: int = 0
    """Trained numbers that no part before it has; a tied matrix counts where it comes first."""


@dataclass(frozen=True, slots=True)
class SubLayer:
    """Hold one part inside a residual sum, with its norm."""

    part: Part
    norm: Part
    reads_memory: bool = False
    """Whether its keys and values come from the stack before."""

    @property
    def parameters(self) -> int:
        return self.part.parameters + self.norm.parameters


@dataclass(frozen=True, slots=True)
class Stack:
    """Hold the parts from ids to hidden states or logits, lowest first."""

    name: str
    reads: str
    """Name of the input, with its shape."""
    below: tuple[Part, ...]
    """Embedding and positions."""
    layers: int
    block: tuple[SubLayer, ...]
    """The sub-layers of each of the `layers` blocks, in order."""
    above: tuple[Part, ...]
    """Final norm and output."""
    gives: str
    """Name of the output, with its shape."""

    @property
    def block_parameters(self) -> int:
        return sum(sub_layer.parameters for sub_layer in self.block)

    @property
    def parameters(self) -> int:
        return self.layers * self.block_parameters + sum(part.parameters for part in self.below + self.above)


@dataclass(frozen=True, slots=True)
class Outline:
    """Hold a whole model."""

    title: str
    stacks: tuple[Stack, ...]
    """Stacks in order of computation; each but the first reads the output of the one before."""
    norm_first: bool
    """Whether a norm stands before its sub-layer (pre-norm), or after the sum (post-norm)."""
    tied: bool
    """Whether the embedding of what is written and the output are one matrix."""
    notes: tuple[str, ...]
    joint: bool = True
    """Whether the embedding of what is read is that matrix too, where the model is tied."""

    @property
    def parameters(self) -> int:
        return sum(stack.parameters for stack in self.stacks)


# Write the outline of a model as lines of text, in order of computation.

_Row = tuple[str, str, str]


def outline_as_text(outline: Outline) -> str:
    """Return a table of part, sizes and parameters; those of a block are for one of its repetitions."""
    rows = [row for stack in outline.stacks for row in _stack(stack, outline.norm_first)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = [f"{name:{widths[0]}}  {sizes:{widths[1]}}  {count:>{widths[2]}}".rstrip() for name, sizes, count in rows]
    total = f"{outline.title}: {localized(plural(outline.parameters, 'parameter'))}; {', '.join(outline.notes)}"
    return "\n".join([total, *table]) + "\n"


def _stack(stack: Stack, norm_first: bool) -> list[_Row]:
    rows = [("", "", ""), (stack.name, stack.reads, "")]
    rows += [row for part in stack.below for row in _part(part, 2)]
    repeated = translated("  {layers} × block", stack.layers)
    rows.append((repeated, "", translated("{block_parameters:,} each", stack.block_parameters)))
    for sub_layer in stack.block:
        inside = [*_part(sub_layer.part, 4), (translated("    + what went in"), "", "")]
        norm = _part(sub_layer.norm, 4)
        rows += [*norm, *inside] if norm_first else [*inside, *norm]
    rows += [row for part in stack.above for row in _part(part, 2)]
    return [*rows, (translated("  gives"), stack.gives, translated("{parameters:,} in all", stack.parameters))]


def _part(part: Part, indent: int) -> list[_Row]:
    """A line for each size, the count on the first."""
    first, *others = part.sizes or ("",)
    count = f"{part.parameters:,}" if part.parameters else ""
    return [(" " * indent + part.title, first, count), *(("", other, "") for other in others)]


# Say what an outline of a model holds in the spoken language.


def localized_outline(outline: Outline) -> Outline:
    """Return the outline with every name and fact in the spoken language; the title stays, which is a user's name."""
    return replace(outline, stacks=_localized(outline.stacks), notes=tuple(map(localized, outline.notes)))


def _localized(value: Any) -> Any:
    """Every text within, but for the kinds of parts, which a drawing knows them by."""
    if isinstance(value, tuple):
        return tuple(map(_localized, value))
    if isinstance(value, Stack | SubLayer | Part):
        names = [field.name for field in fields(value) if field.name != "kind"]
        return replace(value, **{name: _localized(getattr(value, name)) for name in names})
    return translated(value) if isinstance(value, str) else value


# Read the outline of a model off its modules: sizes and counts are those of the real tensors.


_PLACEMENTS = {
    "pre": msg("pre-norm: x + f(norm(x))"),
    "post": msg("post-norm: norm(x + f(x))"),
    "output": msg("norm of the output: x + norm(f(x))"),
    "both": msg("norm of input and output: x + norm(f(norm(x)))"),
}
"""Where the norm of a sub-layer f stands."""

_NORMS = {"layer": "LayerNorm", "rms": "RMSNorm"}
_ADDED = {
    "sinusoidal": (msg("sinusoidal positions"), msg("sine and cosine in turn")),
    "sinusoidal_halves": (msg("sinusoidal positions"), msg("all sines, then all cosines")),
    "sinusoidal_concatenated": (msg("sinusoidal positions"), msg("all sines, then all cosines")),
    "learned": (msg("learned positions"), ""),
}
_IN_ATTENTION = {
    "rotary": msg("q and k turned by position (rotary)"),
    "alibi": msg("score − slope × distance (ALiBi)"),
    "relative": msg("+ q · a[distance] (relative)"),
    "relative_buckets": msg("+ bias[bucket of distance]"),
}


def outline_of_config(config: ModelConfig, title: str) -> Outline:
    """Return the outline of the model that `config` describes, without allocating its weights."""
    with torch.device("meta"):
        model = Factory(config).encoder_decoder()
    return outline_of(model, config, title)


def outline_of(model: EncoderDecoder, config: ModelConfig, title: str) -> Outline:
    """Return the outline of `model`, which was built from `config`."""
    return _Reader(model, config).outline(title)


class _Reader:
    """Names the parts of `model` from the first to the last, and counts each parameter once."""

    def __init__(self, model: EncoderDecoder, config: ModelConfig) -> None:
        self.model = model
        self.config = config
        self.counted: set[int] = set()

    def outline(self, title: str) -> Outline:
        config = self.config
        rates = {msg("dropout"): config.dropout, msg("dropout of attention weights"): config.attention_dropout}
        dropped = [msg("{name} {rate:g}", name, rate) for name, rate in rates.items() if rate]
        return Outline(
            title=title,
            stacks=(self._encoder(), self._decoder()),
            norm_first=config.norm_placement in ("pre", "both"),
            tied=config.tie_embeddings,
            notes=(_PLACEMENTS[config.norm_placement], *dropped),
            joint=config.target_vocab_size is None,
        )

    def _encoder(self) -> Stack:
        encoder = self.model.encoder
        block = cast(EncoderBlock, encoder.blocks[0])
        positions, norm = self.model.positions, self.model.embedding_norm
        below = self._reading(self.model.source_embedding, "S", encoder.blocks, positions, norm)
        attention = self._attention(block.self_attention, "Self-attention", msg("mask: source padding"))
        sub_layers = (
            self._sub_layer(attention, block.self_residual),
            self._sub_layer(self._feed_forward(block), block.feed_forward_residual),
        )
        return Stack(
            name="encoder",
            reads=msg("source ids (B, S)"),
            below=below,
            layers=len(encoder.blocks),
            block=sub_layers,
            above=self._final_norm(encoder.final_norm),
            gives="memory (B, S, D)",
        )

    def _decoder(self) -> Stack:
        decoder = self.model.decoder
        block = cast(CrossAttendingBlock, decoder.blocks[0])
        positions, norm = self.model.positions_of_target, self.model.embedding_norm_of_target
        below = self._reading(self.model.target_embedding, "T", decoder.blocks, positions, norm)
        written = self._sub_layer(self._written(block), block.self_residual)
        attention = self._attention(block.cross_attention, "Cross-attention", msg("mask: source padding"))
        sub_layers = (
            written,
            self._sub_layer(attention, block.cross_residual, reads_memory=True),
            self._sub_layer(self._feed_forward(block), block.feed_forward_residual),
        )
        softmax = Part("softmax", "Softmax", (msg("probability of each of V tokens"),))
        return Stack(
            name="decoder",
            reads=msg("target ids (B, T), shifted right"),
            below=below,
            layers=len(decoder.blocks),
            block=sub_layers,
            above=(*self._final_norm(decoder.final_norm), self._output(), softmax),
            gives="probabilities (B, T, V)",
        )

    def _written(self, block: CrossAttendingBlock) -> Part:
        if isinstance(block, RecurrentDecoderBlock):
            width = self.config.model_dim
            sizes = (f"W, W_f: D × D = {width:,} × {width:,}", "f = sigmoid(W_f x + b_f)", "relu(f c + (1 − f) W x)")
            return Part("recurrence", "SSRU", sizes, self._count(*block.recurrence.parameters()))
        attention = cast(DecoderBlock, block).self_attention
        return self._attention(attention, msg("Masked self-attention"), msg("mask: causal (no future)"))

    def _reading(
        self, embedding: TokenEmbedding, length: str, blocks: Iterable[nn.Module], positions: nn.Module, norm: nn.Module
    ) -> tuple[Part, ...]:
        return (self._embedding(embedding), *self._positions(length, blocks, positions), *self._embedding_norm(norm))

    def _embedding(self, module: TokenEmbedding) -> Part:
        rows, width = module.weight.shape
        parameters = self._count(module.weight)
        tied = () if parameters else (msg("the matrix of the source embedding"),)
        title = "Embedding × √D" if self.config.scale_embeddings else "Embedding"
        return Part("embedding", title, (f"V × D = {rows:,} × {width:,}", *tied), parameters)

    def _positions(self, length: str, blocks: Iterable[nn.Module], module: nn.Module) -> tuple[Part, ...]:
        name = self.config.positions
        if name not in _ADDED:
            return ()
        title, how = _ADDED[name]
        rows = f"{self.config.max_positions:,}" if name == "learned" else length
        sizes = (f"{rows} × {self.config.model_dim:,}", *([how] if how else []))
        again = [
            block.positions for block in blocks if isinstance(block, PositionedEncoderBlock | PositionedDecoderBlock)
        ]
        if again:
            sizes += (msg("in every layer" if name != "learned" else "a table in every layer"),)
        parameters = self._count(*(tensor for part in (module, *again) for tensor in part.parameters()))
        if name == "learned" and not parameters:
            sizes += (msg("the table of the encoder"),)
        return (Part("positions", msg("+ {title}", msg(title)), sizes, parameters),)

    def _attention(self, module: MultiHeadAttention, title: str, mask: str) -> Part:
        heads, width = module.num_heads, module.head_dim
        shared = "" if module.num_kv_heads == heads else msg(", {num_kv_heads} of keys and values", module.num_kv_heads)
        sizes = [msg("{heads} heads × K = {heads} × {width}{shared}", heads, width, shared), self._score(width)]
        if module.self_only:
            sizes += self._nearness()
        return Part("attention", title, (*sizes, mask), self._count(*module.parameters()))

    def _score(self, width: int) -> str:
        config, beta = self.config, self.config.inverse_temperature
        score = {"additive": "v · tanh(q + k)", "bilinear": "q W k"}.get(config.score, "q · k")
        if beta is not None:
            score = f"{beta:g} × {score}"
        elif config.score == "scaled_dot":
            score = f"{score} / √{width}"
        choose = "softmax" if config.selection == "soft" else config.selection.replace("_", "-")
        return f"{choose}({score})"

    def _nearness(self) -> list[str]:
        config = self.config
        notes: list[str] = [_IN_ATTENTION[config.positions]] if config.positions in _IN_ATTENTION else []
        if config.attention_window is not None:
            seen = msg(", first {global_tokens} see all", config.global_tokens) if config.global_tokens else ""
            notes.append(msg("window: ±{attention_window} positions{seen}", config.attention_window, seen))
        return notes

    def _feed_forward(self, block: EncoderBlock | CrossAttendingBlock) -> Part:
        inner, outer = block.feed_forward.inner, block.feed_forward.outer
        width, hidden, name = inner.in_features, outer.in_features, self.config.activation
        gated = inner.out_features != hidden
        sizes = (
            f"D → F → D: {width:,} → {hidden:,} → {outer.out_features:,}",
            msg("{name}, gated", name) if gated else name,
        )
        return Part("feed_forward", "Feed-forward", sizes, self._count(*block.feed_forward.parameters()))

    def _embedding_norm(self, module: nn.Module) -> tuple[Part, ...]:
        if not self.config.embedding_norm:
            return ()
        part = self._norm(module)
        return (part if part.parameters else replace(part, sizes=(msg("the norm of the encoder"),)),)

    def _sub_layer(self, part: Part, residual: nn.Module, *, reads_memory: bool = False) -> SubLayer:
        return SubLayer(part, self._norm(residual), reads_memory)

    def _norm(self, module: nn.Module) -> Part:
        return Part("norm", _NORMS[self.config.norm], (), self._count(*module.parameters()))

    def _final_norm(self, module: nn.Module) -> tuple[Part, ...]:
        return () if self.config.norm_placement == "post" else (self._norm(module),)

    def _output(self) -> Part:
        rows, width = self.model.output_weight.shape
        parameters, bias = self._count(self.model.output_weight), self.model.output_bias
        tied = () if parameters else (msg("the matrix of the embeddings"),)
        sizes = msg("D × V = {width:,} × {rows:,}, {bias}", width, rows, msg("no bias" if bias is None else "bias"))
        return Part("output", "Linear", (sizes, *tied), parameters + self._count(*([] if bias is None else [bias])))

    def _count(self, *tensors: Tensor) -> int:
        fresh = [tensor for tensor in tensors if id(tensor) not in self.counted]
        self.counted.update(map(id, fresh))
        return sum(tensor.numel() for tensor in fresh)
