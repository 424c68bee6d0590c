"""Compute the cross-attention of a translator over a given target in one pass over numpy arrays, exact in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.engine.hypotheses import require_finite
from dikkat_runtime.engine.products import sigmoid, softmax
from dikkat_runtime.engine.settings import SINUSOIDAL, STACK, Allowed, ModelSettings
from dikkat_runtime.engine.stack import Block, KeyValueCache, Linear, Norm, Stack, causal_mask, split_heads
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, source_ids

FORCED: Allowed = {
    **STACK,
    "positions": (*SINUSOIDAL, "learned"),
    "embedding_norm": (False,),
    "output_bias": (False, True),
    "decoder_memory": ("attention", "ssru"),
    "add_source_eos": (True, False),
}
"""The settings of models that this pass computes."""


class ForcedAttention:
    """A forward pass over a source and a given target that returns the cross-attention of every target token."""

    def __init__(self, weights: Weights, settings: ModelSettings) -> None:
        self._encoder = Stack(weights, settings, "encoder", settings.encoder_layers, settings.source_matrix)
        self._decoder = _Decoder(weights, settings)
        self._where = weights.where
        self._add_source_eos = settings.add_source_eos
        self._forced = () if settings.target_prefix is None else (settings.target_prefix,)

    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return weights (L, H, T, S) of each of T target tokens over S source tokens; ids without marks, none empty.

        The row of a token is that of the step which wrote it. The weight on the end mark of the source is left out.
        """
        sources = np.array([source_ids(source, self._add_source_eos)])
        everything = np.ones((1, 1, 1, sources.shape[1]), bool)
        self._decoder.read(self._encoder(sources, everything), everything)
        fed = [BOS_ID, *self._forced, *target[:-1]]
        self._decoder(np.array([fed]), causal_mask(len(fed), len(fed)))
        first = len(self._forced)
        weights = np.stack([block.weights[0, :, first:, : len(source)] for block in self._decoder.cross_blocks])
        return require_finite(weights, self._where)

    def contexts(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Output (T, D) of the last layer's cross-attention for each of T target tokens; ids as for a call.

        The row of a token is what the step which wrote it read from the source, before the residual sum.
        """
        self(source, target)
        output: Array = self._decoder.cross_blocks[-1].context[0, len(self._forced) :]
        return require_finite(output, self._where)


class _Decoder(Stack):
    """A decoder with cross-attention over a source that was encoded before."""

    def __init__(self, weights: Weights, settings: ModelSettings) -> None:
        super().__init__(weights, settings, "decoder", 0, settings.target_matrix, settings.output_size)
        kind = _RecurrentBlock if settings.decoder_memory == "ssru" else _CrossBlock
        self.cross_blocks = [
            kind(weights, f"decoder.blocks.{number}", settings) for number in range(settings.decoder_layers)
        ]
        self.blocks = list[Block](self.cross_blocks)

    def read(self, memory: Array, mask: Array) -> None:
        """Attend to these states (1, S, D) from now on."""
        for block in self.cross_blocks:
            block.memory, block.mask = memory, mask


class _CrossBlock(Block):
    """A block with cross-attention between its two parts; it keeps weights and output of its last call."""

    memory: Array
    mask: Array
    weights: Array
    """(1, H, T, S)."""
    context: Array
    """(1, T, D), the output."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings) -> None:
        super().__init__(weights, name, settings)
        joined, width = self.splits[0], settings.model_dim
        rows = 2 * (self.splits[1] - joined) + joined
        self.cross_in = Linear(weights, f"{name}.cross_attention.in_projection", rows, width)
        self.cross_out = Linear(weights, f"{name}.cross_attention.out_projection", width, joined)
        self.cross_norm = Norm(weights, f"{name}.cross_residual.norm", settings)

    def between(self, x: Array) -> Array:
        """Return the residual sum (1, T, D) of `x` (1, T, D) and its cross-attention over the source."""
        if self.settings.norm_placement == "post":
            return self.cross_norm(x + self._look(x))
        return x + self._look(self.cross_norm(x))

    def _look(self, x: Array) -> Array:
        settings = self.settings
        query = split_heads(np.split(self.cross_in(x), self.splits, axis=-1)[0], settings.num_heads)
        _, key, value = np.split(self.cross_in(self.memory), self.splits, axis=-1)
        key, value = split_heads(key, settings.num_kv_heads), split_heads(value, settings.num_kv_heads)
        if settings.num_kv_heads != settings.num_heads:
            group = settings.num_heads // settings.num_kv_heads
            key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
        scores = query @ key.swapaxes(2, 3) * np.float32(settings.inverse_temperature)
        self.weights = softmax(np.where(self.mask, scores, np.float32(-np.inf)))
        # (1, H, T, K) -> (1, T, H * K)
        self.context = self.cross_out((self.weights @ value).swapaxes(1, 2).reshape(*x.shape[:2], -1))
        return self.context


class _RecurrentBlock(_CrossBlock):
    """A block whose first part is a recurrent unit (Kim et al. 2019, section 3.1) in place of self-attention."""

    def _read_first(self, weights: Weights, name: str) -> None:
        width = self.settings.model_dim
        self._content = Linear(weights, f"{name}.recurrence.content", width, width)
        self._forget = Linear(weights, f"{name}.recurrence.forget", width, width)

    def _first(
        self, x: Array, mask: Array, angles: tuple[Array, Array] | None, cache: KeyValueCache | None, layer: int
    ) -> Array:
        """Return max(c_t, 0) with c_t = f_t c_(t-1) + (1 - f_t) W x_t and f_t = sigmoid(W_f x_t + b_f)."""
        forget = sigmoid(self._forget(x))
        states = (1 - forget) * self._content(x)
        for position in range(1, x.shape[1]):
            states[:, position] += forget[:, position] * states[:, position - 1]
        return np.asarray(np.maximum(states, 0))
