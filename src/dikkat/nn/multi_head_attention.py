"""Multi-head attention: self and cross in one module."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dikkat.kernels.linear import split_heads
from dikkat.kernels.rotary import Rotation, apply_rotary
from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.checks import check_sizes, check_unbatched, check_width, checked_head_dim, checked_kv_heads
from dikkat.nn.functional import Selection
from dikkat.nn.layers import Linear, RMSNorm, checked_probability, output_layer
from dikkat.nn.named_positions import RelativePositions
from dikkat.nn.rotary import RotaryPositions
from dikkat.nn.scorers import HeadScore, attention_scorer
from dikkat.nn.sliding_window import Window


class Observation(NamedTuple):
    """The inputs of attention in one forward call, from which its weights and its output follow."""

    query: Tensor
    """(B, H, T, K), after its projection and rotation."""
    key: Tensor
    """(B, H, S, K), repeated where heads share one."""
    value: Tensor
    """(B, H, S, K), repeated where heads share one."""
    mask: Tensor | None
    """Boolean, True = may attend, broadcastable to (B, H, T, S)."""


Observer = Callable[[Observation], None]
"""Called at every forward; it may compute the weights from what it sees."""

Reader = Callable[[Tensor], None]
"""Called at every forward with the weights (B, H, T, S)."""


class MultiHeadAttention(nn.Module):
    """Attention of H heads side by side, each in a subspace of width K (Vaswani et al. 2017, section 3.2.2).

    `query_dim`, `key_dim` and `value_dim` only set the widths of the inputs; whether it is self- or cross-attention is
    decided by what is passed as `key`. `head_dim` is free; left out it is `model_dim / num_heads`. With fewer
    `num_kv_heads`, groups of heads share keys and values (Ainslie et al. 2023). Where query, key and value have one
    width, their projections are one packed matrix. `output_bias` is that of the last projection; left out, `bias`.
    Without an `output_projection` the heads' outputs stand side by side as they are, H * K = model_dim of them.

    `score`, `beta` (inverse temperature) and `selection` say how the heads compare and choose; their defaults are the
    paper's and the fastest. `positions` (see `attention_positions`) and a `window`, with its `global_tokens` (see
    `window_mask`), are between tokens of one sequence: only self-attention may have them. A `causal` window reaches
    back alone; it hides nothing more where the mask is causal, and is faster. A `query_key_norm` divides the queries
    and keys of self-attention, each head's or all heads' together, by their root mean square. Raises
    `ValueError` naming the argument, the limit and the value given.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        query_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        output_projection: bool = True,
        dropout: float = 0.0,
        score: HeadScore = "scaled_dot",
        beta: float | None = None,
        selection: Selection = "soft",
        positions: RelativePositions | None = None,
        window: int | None = None,
        global_tokens: int = 0,
        causal: bool = False,
        query_key_norm: Literal["head", "all"] | None = None,
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__()
        check_sizes(query_dim=query_dim, key_dim=key_dim, value_dim=value_dim)
        self.num_heads = num_heads
        self.head_dim = checked_head_dim(model_dim, num_heads, head_dim)
        self.num_kv_heads = checked_kv_heads(num_heads, num_kv_heads)
        self.dropout = checked_probability(dropout)
        self.widths = widths = tuple(model_dim if width is None else width for width in (query_dim, key_dim, value_dim))
        outputs = [heads * self.head_dim for heads in (num_heads, self.num_kv_heads, self.num_kv_heads)]
        self.packed = len(set(widths)) == 1
        self.splits = outputs
        if self.packed:
            self.in_projection = Linear(widths[0], sum(outputs), bias=bias)
        else:
            self.query_projection, self.key_projection, self.value_projection = (
                Linear(width, output, bias=bias) for width, output in zip(widths, outputs, strict=True)
            )
        # a Linear; Identity without an output projection
        self.out_projection: Any = output_layer(
            num_heads * self.head_dim, model_dim, output_projection, bias if output_bias is None else output_bias
        )
        self.query_key_norm = query_key_norm
        if query_key_norm is not None:
            normed = [self.head_dim] * 2 if query_key_norm == "head" else outputs[:2]
            self.query_norm, self.key_norm = (RMSNorm(width, eps=norm_eps) for width in normed)
        self.rotary = positions if isinstance(positions, RotaryPositions) else None
        score_bias = None if isinstance(positions, RotaryPositions) else positions
        self.comparison = attention_scorer(num_heads, self.head_dim, score, beta, selection, score_bias)
        self.window = None if window is None else Window(window, global_tokens, causal)
        # a relative position counts from the ends, a draw is made once for all pairs, a function may ask for anything
        self._may_cut = selection == "soft" and score_bias is None and score in ("scaled_dot", "dot", "bilinear")
        self.self_only = positions is not None or window is not None
        # OrderedDicts, since the handles refer to them weakly and a plain dict cannot be
        self._observers: OrderedDict[int, Observer] = OrderedDict()
        self._readers: OrderedDict[int, Reader] = OrderedDict()

    def forward(
        self,
        query: Float[Tensor, "*B T Dq"],
        key: Float[Tensor, "*B S Dk"] | None = None,
        value: Float[Tensor, "*B S Dv"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: SelfAttentionCache | None = None,
        position_ids: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Compute self-attention of `query` alone, or cross-attention to a `key` (and `value`, by default the same).

        A single sequence (T, Dq) is a batch of one, and comes back without it; who reads the weights gets (1, H, T, S).
        `mask` is boolean, True = may attend, broadcastable to (B, H, T, S). With `cache` (self-attention only) the
        newest keys and values are appended to it and all of them are attended to. `position_ids` are the positions of a
        sequence of which some were left out, see `supports_position_ids`.

        Raises `ValueError` for a `value` without a `key`, and for a `cache` with one: neither would have any effect;
        for a `key` where there are relative positions or a window; for `position_ids` that are not supported; for a
        wrong width, a sequence without positions or a mask that does not fit; and `TypeError` for a mask that is not
        boolean.
        """
        if query.dim() == 2:
            key, value = check_unbatched("key", key), check_unbatched("value", value)
            return self.forward(query[None], key, value, mask, cache=cache, position_ids=position_ids)[0]
        if key is None:
            if value is not None:
                raise ValueError("a value needs its key: pass key=query too if they are to be compared with the query")
            if position_ids is not None and (cache is not None or not self.supports_position_ids):
                raise ValueError(
                    "a cache, a window and positions by distance need whole sequences: pass no position_ids"
                )
            q, k, v = self.project_self(query)
            rotation = None
            if self.rotary is not None:
                rotation = self.rotary.rotation(q, 0 if cache is None else cache.length, position_ids)
            if cache is not None:
                (q, k), rotation = apply_rotary(rotation, q, k), None
                k, v = cache.append(k, v)
            return self._attend(q, k, v, mask, rotation)
        if cache is not None:
            raise ValueError("a self-attention cache takes no key: for a source, call project_memory once instead")
        if position_ids is not None:
            raise ValueError("position_ids are those of one sequence: pass no key, or leave them out")
        memory = self.project_memory(key, value)
        return self._attend(self.project_query(query), memory.key, memory.value, mask)

    @property
    def query_has_bias(self) -> bool:
        """True where the projections of query, key and value add a bias."""
        return (self.in_projection if self.packed else self.query_projection).bias is not None

    @property
    def supports_position_ids(self) -> bool:
        """True where `forward` takes `position_ids`, so that a sequence may have gaps."""
        return self.window is None and (self.rotary is not None or not self.self_only)

    def project_memory(
        self, key: Float[Tensor, "B S Dk"], value: Float[Tensor, "B S Dv"] | None = None
    ) -> CrossAttentionCache:
        """Compute keys and values of a source, to be attended to any number of times.

        Raises `ValueError` for a wrong width, and where relative positions or a window need one sequence.
        """
        if self.self_only:
            raise ValueError("relative positions and a window need one sequence: pass no key, or leave both out")
        value = key if value is None else value
        self._check_width("key", key, 1)
        self._check_width("value", value, 2)
        if not self.packed:
            k, v = self.key_projection(key), self.value_projection(value)
        elif value is key:
            both = self._in_rows(key, self.splits[0], None)
            return CrossAttentionCache(*split_heads(both, [self.num_kv_heads] * 2, self.head_dim))
        else:
            k = self._in_rows(key, self.splits[0], self.splits[0] + self.splits[1])
            v = self._in_rows(value, self.splits[0] + self.splits[1], None)
        return CrossAttentionCache(self._split_heads(k, self.num_kv_heads), self._split_heads(v, self.num_kv_heads))

    def attend_memory(
        self, query: Float[Tensor, "R T D"], memory: CrossAttentionCache, mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "R T D"]:
        """Compute cross-attention of `R = B x rows` hypotheses, queries over the one memory of their sentence."""
        sentences = memory.key.shape[0]
        # (B * rows, T, D) -> (B, rows * T, D): no key or value is copied per hypothesis
        grouped = query.reshape(sentences, -1, query.shape[-1])
        return self._attend(self.project_query(grouped), memory.key, memory.value, mask).view(query.shape)

    def observe(self, observer: Observer) -> RemovableHandle:
        """Call `observer` with query, key, value and mask at every forward until the handle is removed."""
        handle = RemovableHandle(self._observers)
        self._observers[handle.id] = observer
        return handle

    def read_weights(self, reader: Reader) -> RemovableHandle:
        """Call `reader` with the weights, before dropout, at every forward until the handle is removed.

        They are in at least float32, detached from the graph, and the reader's to keep. The output is the same to the
        bit as if nobody read. Where the path that computes it holds its weights, these are given: short sequences on a
        CPU and native decoding; else they are computed anew by the reference.
        """
        handle = RemovableHandle(self._readers)
        self._readers[handle.id] = reader
        return handle

    @property
    def has_readers(self) -> bool:
        """True while a reader of the weights is registered."""
        return bool(self._readers)

    def notify_readers(self, weights: Float[Tensor, "B H T S"]) -> None:
        """Give the weights to all who read them, to each a tensor of its own."""
        for index, reader in enumerate(self._readers.values()):
            reader(weights.clone() if index else weights)

    def weights(
        self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B H T S"]:
        """Compute the weights, before dropout, of a query, key and mask of an `Observation`; in at least float32."""
        return self.comparison.weights(query, key, mask)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, rotation: Rotation | None = None) -> Tensor:
        # where attention to what the window reaches alone is the faster way
        near = self.window if self.window is not None and self._may_cut and self.window.saves(q, k) else None
        if self._observers or near is not None:
            (q, k), rotation = apply_rotary(rotation, q, k), None
        if self.num_kv_heads != self.num_heads:
            # (B, G, S, K) -> (B, H, S, K)
            group = self.num_heads // self.num_kv_heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        caller_mask = mask
        if self.window is not None and (near is None or self._observers or self.has_readers):
            mask = self.window.mask(q, k, caller_mask)
        for observer in self._observers.values():
            observer(Observation(q, k, v, mask))
        dropout = self.dropout if self.training else 0.0
        if near is not None:
            output = near.attend(partial(self.comparison, dropout=dropout), q, k, v, caller_mask)
            if self.has_readers:
                with torch.no_grad():
                    self.notify_readers(self.comparison.weights(q, k, mask))
        elif self.has_readers:
            output, weights = self.comparison.with_weights(q, k, v, mask, dropout, rotation)
            self.notify_readers(weights)
        else:
            output = self.comparison(q, k, v, mask, dropout, rotation)
        # (B, H, T, K) -> (B, T, H, K) -> (B, T, H * K)
        return self.out_projection(output.transpose(1, 2).flatten(2))

    def project_self(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project to query, key and value by heads, before rotation."""
        self._check_width("query", x, 0)
        if self.packed:
            heads = self.num_heads, self.num_kv_heads, self.num_kv_heads
            q, k, v = split_heads(self.in_projection(x), heads, self.head_dim)
        else:
            self._check_width("key", x, 1)
            self._check_width("value", x, 2)
            q = self._split_heads(self.query_projection(x), self.num_heads)
            k, v = (self._split_heads(f(x), self.num_kv_heads) for f in (self.key_projection, self.value_projection))
        if self.query_key_norm == "all":
            # (B, H, T, K) -> (B, T, H * K) -> (B, H, T, K)
            q = self._split_heads(self.query_norm(q.transpose(1, 2).flatten(2)), self.num_heads)
            k = self._split_heads(self.key_norm(k.transpose(1, 2).flatten(2)), self.num_kv_heads)
        elif self.query_key_norm == "head":
            q, k = self.query_norm(q), self.key_norm(k)
        return q, k, v

    def project_query(self, query: Float[Tensor, "B T Dq"]) -> Float[Tensor, "B H T K"]:
        """Project to queries by heads, before rotation."""
        self._check_width("query", query, 0)
        q = self._in_rows(query, None, self.splits[0]) if self.packed else self.query_projection(query)
        return self._split_heads(q, self.num_heads)

    def _check_width(self, name: str, x: Tensor, index: int) -> None:
        check_width(name, x, self.widths[index])

    def _in_rows(self, x: Tensor, start: int | None, end: int | None) -> Tensor:
        projected: Tensor = self.in_projection(x, rows=slice(start, end))
        return projected

    def _split_heads(self, x: Float[Tensor, "B T E"], heads: int) -> Float[Tensor, "B H T K"]:
        # (B, T, H * K) -> (B, T, H, K) -> (B, H, T, K)
        return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)
