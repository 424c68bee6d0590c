"""A stack of Transformer blocks over numpy arrays and C kernels, as classifiers and language models have it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dikkat_runtime.engine.position_tables import rotations, sinusoids
from dikkat_runtime.engine.products import DISTANCE_BUCKETS, GATED, Distances, activated, attend, linear, table_rows
from dikkat_runtime.engine.settings import ModelSettings, rotated
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array, aligned, empty

FIRST_CAPACITY = 32
"""Positions that a cache holds before it first grows."""


@dataclass
class KeyValueCache:
    """Keys and values (R, G, capacity, K) of each layer, of which `length` positions are filled."""

    length: int = 0
    """Positions that every row has read."""
    layers: list[tuple[Array, Array]] = field(default_factory=list)

    def append(self, layer: int, key: Array, value: Array) -> tuple[Array, Array]:
        """Return all keys and values of a layer, with these (R, G, T, K) at the end.

        Call `advance` after the last layer.
        """
        end = self.length + key.shape[2]
        if layer == len(self.layers):
            self.layers.append((key[:, :, :0], value[:, :, :0]))
        if end > self.layers[layer][0].shape[2]:
            more = ((0, 0), (0, 0), (0, max(FIRST_CAPACITY, 2 * end) - self.length), (0, 0))
            keys, values = (np.pad(before[:, :, : self.length], more) for before in self.layers[layer])
            self.layers[layer] = keys, values
        keys, values = self.layers[layer]
        keys[:, :, self.length : end], values[:, :, self.length : end] = key, value
        return keys[:, :, :end], values[:, :, :end]

    def advance(self, count: int) -> None:
        """Count `count` more positions as read by all layers."""
        self.length += count

    def keep(self, rows: list[int]) -> None:
        self.layers = [(key[rows], value[rows]) for key, value in self.layers]


class Linear:
    """A linear layer `x @ weight.T + bias`, in eight bits where the weights are."""

    def __init__(self, weights: Weights, name: str, outputs: int, inputs: int) -> None:
        self._layer, self._weights = weights.layer(name, outputs, inputs), weights

    def __call__(self, x: Array) -> Array:
        return linear(self._layer, x, self._weights.threads)


class Norm:
    """Layer norm, or root-mean-square norm, over the last axis."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings, width: int = 0, kind: str = "") -> None:
        """By default it has the `width` of the model, and the `kind` of its settings."""
        own = width or settings.model_dim
        self.eps = np.float32(settings.norm_eps)
        self.weight = weights.array(f"{name}.weight", own)
        self.bias = weights.array(f"{name}.bias", own) if (kind or settings.norm) == "layer" else None

    def __call__(self, x: Array) -> Array:
        if self.bias is not None:
            x = x - x.mean(axis=-1, keepdims=True)
        scaled: Array = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + self.eps) * self.weight
        return scaled if self.bias is None else scaled + self.bias


class Block:
    """A Transformer block: self-attention and the feed-forward network, each in its residual sum."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings) -> None:
        self.settings, self._threads = settings, weights.threads
        width, hidden, head = settings.model_dim, settings.feed_forward_dim, settings.head_dim
        joined, groups = settings.num_heads * head, settings.num_kv_heads * head
        self.splits = joined, joined + groups
        gates = 2 if settings.activation in GATED else 1
        self._read_first(weights, name)
        self.inner = Linear(weights, f"{name}.feed_forward.inner", gates * hidden, width)
        self.outer = Linear(weights, f"{name}.feed_forward.outer", width, hidden)
        parts = [f"{name}.{part}_residual" for part in ("self", "feed_forward")]
        has_norm = settings.first_norm or not name.endswith(".0")
        same: list[Callable[[Array], Array]] = [np.asarray, np.asarray]
        norms: list[Callable[[Array], Array]] = [
            Norm(weights, f"{part}.norm", settings) if has_norm or part is parts[1] else np.asarray for part in parts
        ]
        self.norms, self.output_norms = (same, norms) if settings.norm_placement == "output" else (norms, same)
        if settings.norm_placement == "both":
            self.output_norms = [Norm(weights, f"{part}.output_norm", settings) for part in parts]

    def __call__(
        self, x: Array, mask: Array, angles: tuple[Array, Array] | None, cache: KeyValueCache | None, layer: int
    ) -> Array:
        """Return `x` (B, T, D) after the block.

        `mask` (B or 1, 1, T or 1, S) is True where a key may be attended to.
        """
        attention_norm, feed_forward_norm = self.norms
        attend = partial(self._first, mask=mask, angles=angles, cache=cache, layer=layer)
        if self.settings.norm_placement == "post":
            x = self.between(attention_norm(x + attend(x)))
            return feed_forward_norm(x + self._feed_forward(x))
        if self.settings.parallel_residual:
            return np.asarray(x + attend(attention_norm(x)) + self._feed_forward(feed_forward_norm(x)))
        x = self.between(x + self.output_norms[0](attend(attention_norm(x))))
        return x + self.output_norms[1](self._feed_forward(feed_forward_norm(x)))

    def between(self, x: Array) -> Array:
        """Return `x` unchanged; a decoder has its cross-attention between the two parts."""
        return x

    def _read_first(self, weights: Weights, name: str) -> None:
        width, (joined, rest) = self.settings.model_dim, self.splits
        self.in_projection = Linear(weights, f"{name}.self_attention.in_projection", 2 * rest - joined, width)
        self.out_projection = Linear(weights, f"{name}.self_attention.out_projection", width, joined)
        kind, head = self.settings.query_key_norm, self.settings.head_dim
        sizes = (head, head) if kind == "head" else (joined, rest - joined)
        parts = () if kind is None else zip(("query", "key"), sizes, strict=True)
        self.head_norms = [
            Norm(weights, f"{name}.self_attention.{part}_norm", self.settings, size, "rms") for part, size in parts
        ]
        self.distances: Distances | None = None
        score, heads = f"{name}.self_attention.comparison", self.settings.num_heads
        if self.settings.relative_bias:
            self.distances = Distances(weights.array(f"{score}.bias.embedding", DISTANCE_BUCKETS, heads))
        if (span := self.settings.relative_span) is not None:
            names = [f"{score}.score.position_{part}" for part in ("key", "query")]
            vectors = [weights.array(part, heads, 2 * span, head) for part in names]
            self.distances = Distances(None, vectors, self.settings.relative_range or 0)

    def _first(
        self, x: Array, mask: Array, angles: tuple[Array, Array] | None, cache: KeyValueCache | None, layer: int
    ) -> Array:
        settings = self.settings
        query, key, value = np.split(self.in_projection(x), self.splits, axis=-1)
        if settings.query_key_norm == "all":
            query, key = self.head_norms[0](query), self.head_norms[1](key)
        query = split_heads(query, settings.num_heads)
        key, value = split_heads(key, settings.num_kv_heads), split_heads(value, settings.num_kv_heads)
        if settings.query_key_norm == "head":
            query, key = self.head_norms[0](query), self.head_norms[1](key)
        if angles is not None:
            query, key = rotated(query, *angles), rotated(key, *angles)
        if cache is not None:
            key, value = cache.append(layer, key, value)
        if settings.num_kv_heads != settings.num_heads and self.distances is not None:
            group = settings.num_heads // settings.num_kv_heads
            key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
        beta = settings.inverse_temperature
        return self.out_projection(attend(query, key, value, mask, beta, self._threads, self.distances))

    def _feed_forward(self, x: Array) -> Array:
        return self.outer(activated(self.settings.activation, self.inner(x), self._threads))


class Stack:
    """A stack of embeddings, positions, blocks and the final norm."""

    def __init__(
        self, weights: Weights, settings: ModelSettings, name: str, layers: int, embedding: str,
        vocab_size: int | None = None, segment: Array | None = None,
    ) -> None:  # fmt: skip
        """`name` is that of the stack among the weights, "encoder" or "decoder"; `embedding` that of its matrix.

        The matrix has `vocab_size` rows, by default those of the settings; a `segment` (D,) is added to each of them.
        """
        self.settings, self.segment = settings, segment
        self._rows, width = settings.vocab_size if vocab_size is None else vocab_size, settings.embedding_width
        read: Callable[..., Any] = weights.table if name == "decoder" else weights.array
        self.embedding = read(embedding, self._rows, width)
        self.scale = np.float32(math.sqrt(width) if settings.scale_embeddings else 1.0)
        self.blocks = [Block(weights, f"{name}.blocks.{number}", settings) for number in range(layers)]
        self.final_norm = None if settings.norm_placement == "post" else Norm(weights, f"{name}.final_norm", settings)
        norm = "embedding_norm" if settings.embedding_dim is None else "embedding_norm.norm"
        self.embedding_norm = Norm(weights, norm, settings, width) if settings.embedding_norm else None
        self.widen: Linear | None = None
        if settings.embedding_dim is not None:
            self.widen = Linear(weights, "embedding_norm.projection", settings.model_dim, width)
        self.position_embeddings: Array | None = None
        if settings.positions == "learned":
            self.position_embeddings = weights.array("positions.embedding", settings.max_positions, width)
        self._sinusoids = empty((0, width))
        self._rotations: dict[str, Array] = {}

    def __call__(self, tokens: Array, mask: Array, cache: KeyValueCache | None = None) -> Array:
        """Return states (B, T, D) of ids (B, T); `mask` is True where a key may be attended to, (B or 1, 1, T or 1, S).

        With a cache the tokens stand after the positions in it. Raises `DataError` for an id outside
        the vocabulary, or a sequence beyond the table of learned positions.
        """
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < self._rows:
            raise DataError("a token must lie between 0 and {vocab_size}", self._rows - 1)
        start = cache.length if cache is not None else 0
        end = start + tokens.shape[1]
        # (V, D)[(B, T)] -> (B, T, D)
        x = table_rows(self.embedding, tokens) * self.scale
        if self.segment is not None:
            x = x + self.segment
        if (rows := self.positions(start, end)) is not None:
            x = x + rows
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        if self.widen is not None:
            x = self.widen(x)
        kinds = self.settings.layer_kinds
        near = self._near(start, end) if "window" in kinds else None
        angles = {kind: self.angles(start, end, kind) for kind in set(kinds)}
        for layer, block in enumerate(self.blocks):
            kind = kinds[layer % len(kinds)]
            seen = mask & near if kind == "window" and near is not None else mask
            x = block(x, seen, angles[kind], cache, layer)
        if cache is not None:
            cache.advance(tokens.shape[1])
        return x if self.final_norm is None else self.final_norm(x)

    def positions(self, start: int, end: int) -> Array | None:
        """Return the rows (end - start, D) added to embeddings, or None where positions enter in attention."""
        if self.position_embeddings is not None:
            if end > len(self.position_embeddings):
                raise DataError("{tokens} tokens do not fit into {positions} learned positions; shorten the text").fill(
                    end, len(self.position_embeddings)
                )
            return self.position_embeddings[start:end]
        if self.settings.positions in ("rotary", "none"):
            return None
        if end > len(self._sinusoids):
            self._sinusoids = aligned(sinusoids(2 * end, self.settings.embedding_width, self.settings.positions))
        return self._sinusoids[start:end]

    def _near(self, start: int, end: int) -> Array | None:
        """Return the mask (T, S) of keys within the window of each query, or None where there is none."""
        settings = self.settings
        if settings.attention_window is None:
            return None
        queries, keys = np.arange(start, end)[:, None], np.arange(end)
        near = np.abs(queries - keys) <= settings.attention_window
        return np.asarray(near | (queries < settings.global_tokens) | (keys < settings.global_tokens))

    def angles(self, start: int, end: int, kind: str = "full") -> tuple[Array, Array] | None:
        """Return cosines and sines of rotary positions in layers of a kind, or None where there are none."""
        settings = self.settings
        if settings.positions != "rotary" or settings.relative_bias or kind == "unrotated":
            return None
        known = self._rotations.get(kind)
        if known is None or end > len(known[0]):
            own = settings.window_rotary_frequencies if kind == "window" else None
            frequencies = settings.rotary_frequencies if own is None else own
            known = self._rotations[kind] = aligned(rotations(2 * end, settings.head_dim, frequencies))
        return known[0][start:end], known[1][start:end]


def split_heads(x: Array, heads: int) -> Array:
    """Return `x` (B, T, H * K) as heads (B, H, T, K)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def causal_mask(length: int, total: int) -> Array:
    """Return the causal mask (1, 1, length, total) of the last `length` of `total` positions."""
    return np.tri(length, total, total - length, dtype=bool)[None, None]
