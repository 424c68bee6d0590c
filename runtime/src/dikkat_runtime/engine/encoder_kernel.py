"""Encode in one call of C, over texts that stand one after the other, without padding."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float, c_int64
from itertools import accumulate, chain
from typing import Any

import numpy as np

from dikkat_runtime.engine.hypotheses import not_finite
from dikkat_runtime.engine.position_tables import SINUSOIDAL
from dikkat_runtime.engine.settings import NATIVE, ModelSettings
from dikkat_runtime.engine.weights import Weights, encoder_layers
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.native.arrays import Array, address, addresses, empty, full
from dikkat_runtime.native.library import ACTIVATIONS, INDEX_ERROR, NOT_FINITE, Encoder, Linear, Norm, Rotation, library

Rows = Callable[[int, int], Array | None]
"""From the range of T positions to the rows (T, D) that are added to embeddings."""
Angles = Callable[[int, int], tuple[Array, Array] | None]
"""From the range of T positions to the cosines and sines (T, K/2) of rotary ones."""
_COMPUTED: Mapping[str, tuple[object, ...]] = {
    **{name: values for name, values in NATIVE.items() if name in ModelSettings.__dataclass_fields__},
    "positions": (*SINUSOIDAL, "learned", "rotary"),
    "embedding_norm": (False, True),
    "layer_kinds": (("full",),),
}


def computes_encoder(settings: ModelSettings, weights: Weights) -> bool:
    """Return whether the kernel computes the encoder of a model with these settings and weights."""
    is_known = all(getattr(settings, name) in _COMPUTED[name] for name in _COMPUTED if name != "rotary_frequencies")
    return is_known and not weights.group_bits and settings.num_kv_heads == settings.num_heads


class EncoderKernel:
    """Encode texts by all layers in one call of C; a text has the same bits in any company."""

    def __init__(
        self,
        settings: ModelSettings,
        weights: Weights,
        embedding: Array,
        scale: float,
        positions: Rows,
        angles: Angles | None = None,
        segment: Array | None = None,
    ) -> None:
        """Read the blocks of an encoder; rows of `embedding` (V, D) are scaled, and a `segment` (D,) added to them."""
        self._settings, self._weights, self._kept = settings, weights, (embedding, segment)
        self._positions, self._angles = positions, angles
        linears, norms = encoder_layers(weights, settings)
        if settings.embedding_norm:
            norms.append(weights.norm("embedding_norm", settings.model_dim, settings.norm_eps))
        self.linears, self._norms = (Linear * len(linears))(*linears), (Norm * len(norms))(*norms)
        self._betas = (c_float * settings.encoder_layers)(*[settings.inverse_temperature] * settings.encoder_layers)
        # without any sentences
        self._job = Encoder(
            layers=settings.encoder_layers,
            width=settings.model_dim,
            heads=settings.num_heads,
            head_width=settings.head_dim,
            hidden=settings.feed_forward_dim,
            post_norm=settings.norm_placement == "post",
            activation=ACTIVATIONS[settings.activation],
            vocabulary=settings.vocab_size,
            embedding=address(embedding),
            embedding_scale=scale,
            linears=ctypes.addressof(self.linears),
            norms=ctypes.addressof(self._norms),
            betas=ctypes.addressof(self._betas),
            segment=address(segment),
            embedding_norm=ctypes.addressof(self._norms[-1]) if settings.embedding_norm else None,
        )

    def split(self) -> None:
        """Multiply by float32 weights in three parts of bfloat16, where the processor has tiles for these."""
        self._split = empty(library()[0].split_bytes(self.linears, len(self.linears)), np.uint8)
        library()[0].split_weights(self.linears, len(self.linears), address(self._split))

    def run(
        self,
        rows: Sequence[Sequence[int]],
        *,
        pools: bool = False,
        threads: int | None = None,
        adapters: Sequence[Any] = (),
    ) -> Array:
        """Return the states (B, S, D) of rows of ids, none empty, with zeros after each row, or their means (B, D).

        A row has linear layers of its own in `adapters`. Raises `DataError` for an id outside the vocabulary and for a
        row beyond the table of learned positions.
        """
        lengths = [len(row) for row in rows]
        longest, width = max(lengths), self._settings.model_dim
        starts = (c_int64 * (len(lengths) + 1))(0, *accumulate(lengths))
        # all ids one after the other, no padding
        ids = np.fromiter(chain.from_iterable(rows), np.int64, starts[-1])
        table, linears = self._positions(0, longest), addresses(adapters)
        angles = self._angles(0, longest) if self._angles is not None else None
        job = Encoder.from_buffer_copy(self._job)
        job.sentences, job.longest, job.threads = len(rows), longest, threads or self._weights.threads
        job.starts, job.ids, job.positions, job.pools = ctypes.addressof(starts), address(ids), address(table), pools
        job.rotation = Rotation(*map(address, angles or (None, None)), longest)
        job.adapters = address(linears)
        output = empty((len(rows), width)) if pools else full((len(rows), longest, width), 0.0)
        code = library()[0].encoder_run(ctypes.byref(job), address(output))
        if code == INDEX_ERROR:
            raise DataError("a token must lie between 0 and {vocab_size}", self._settings.vocab_size - 1)
        if code == NOT_FINITE:
            raise not_finite(self._weights.where)
        if code:
            raise MemoryError(msg("no memory left to encode"))
        return output
