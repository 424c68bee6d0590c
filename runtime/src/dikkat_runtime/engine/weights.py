"""Read the weights of a model by their names, in the layout of the kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.errors import DataError
from dikkat_runtime.messages import msg
from dikkat_runtime.native.arrays import Array, address, aligned, empty
from dikkat_runtime.native.library import library
from dikkat_runtime.native.structures import Linear, Norm, Packing

PANEL, QUAD, LANES = 64, 4, 16
"""Outputs of a panel of bytes, bytes that are multiplied together, float32 numbers of a vector."""


@dataclass(frozen=True)
class Weights:
    """Named arrays of one model, each checked against the shape that the settings ask for."""

    arrays: Mapping[str, Array]
    where: str
    """The file, for messages."""
    in_bytes: bool
    threads: int
    used: set[str] = field(default_factory=set)
    _kept: list[Array] = field(default_factory=list)
    """The arrays that C reads in place."""

    def array(self, name: str, *shape: int) -> Array:
        """Return a copy of one array that C can read.

        Raises `DataError` where it is missing or has another shape or type.
        """
        source = self.arrays.get(name)
        if source is None:
            raise self._unfit(msg("parameter {name} is missing").fill(name))
        if source.shape != shape:
            raise self._unfit(
                msg("parameter {name} has the shape {shape}, not {shape2}").fill(name, source.shape, shape)
            )
        if source.dtype != np.float32:
            raise DataError("{where}: damaged: {name} is {dtype}, not float32; restore the file").fill(
                self.where, name, source.dtype
            )
        if not np.isfinite(source).all():
            raise DataError("{where}: damaged: {name} holds values that are not finite; train again").fill(
                self.where, name
            )
        self.used.add(name)
        copy = aligned(source)
        self._kept.append(copy)
        return copy

    def has(self, name: str) -> bool:
        """Return whether there is an array of this name; a linear layer may have no bias."""
        return name in self.arrays

    def linear(self, name: str, outputs: int, inputs: int, rows: slice = slice(None)) -> Linear:
        """Return some `rows` of a linear layer, in eight bits where weights are."""
        weight = self.array(f"{name}.weight", outputs, inputs)
        bias = self.array(f"{name}.bias", outputs) if self.has(f"{name}.bias") else None
        return self.matrix(weight[rows], None if bias is None else bias[rows])

    def matrix(self, weight: Array, bias: Array | None = None) -> Linear:
        """Return a linear layer of a matrix (outputs, inputs) that is kept already."""
        packed = self._packed(weight) if self.in_bytes else ()
        return Linear(address(weight), address(bias), weight.shape[1], weight.shape[0], *map(address, packed))

    def recurrent(self, name: str, width: int) -> Linear:
        """Return content (no bias) and forget gate of a recurrent unit as one linear layer, the content first."""
        content, forget = (self.array(f"{name}.{part}.weight", width, width) for part in ("content", "forget"))
        bias = self.array(f"{name}.forget.bias", width)
        both = aligned(np.concatenate((content, forget))), aligned(np.concatenate((np.zeros_like(bias), bias)))
        self._kept.extend(both)
        return self.matrix(*both)

    def norm(self, name: str, width: int, eps: float) -> Norm:
        """Return a layer norm over `width` entries."""
        weight, bias = self.array(f"{name}.weight", width), self.array(f"{name}.bias", width)
        return Norm(address(weight), address(bias), 1, eps)

    def check_all_used(self) -> None:
        """Raise `DataError` for weights that no part of the model has asked for."""
        if left := sorted(set(self.arrays) - self.used):
            raise self._unfit(msg("no parameter is called {left}").fill(left[0]))

    def _unfit(self, reason: str) -> DataError:
        return DataError("{file}: does not fit {config}: {error}").fill(
            self.where, Path(self.where).with_name("config.json"), reason
        )

    def _packed(self, weight: Array) -> tuple[Array, Array, Array]:
        """Return eight-bit panels of a matrix, a scale for each output, and the shift that unsigned products need."""
        outputs, inputs = weight.shape
        panels, quads = -(-outputs // PANEL), -(-inputs // LANES) * (LANES // QUAD)
        packed = (
            empty((panels, quads, PANEL, QUAD), np.int8),
            empty(panels * PANEL),
            empty(panels * PANEL, np.int32),
        )
        packing = Packing(*map(address, (*packed, weight)), weight.strides[0] // 4, outputs, inputs, 0, 1)
        if library()[0].pack_bytes(ctypes.byref(packing), self.threads):
            raise MemoryError(msg("no memory left to pack the weights"))
        self._kept.extend(packed)
        return packed


def encoder_layers(weights: Weights, settings: ModelSettings) -> tuple[list[Linear], list[Norm]]:
    """Return linear layers, four a block, and norms of the encoder."""
    width, joined, hidden = settings.model_dim, settings.num_heads * settings.head_dim, settings.feed_forward_dim
    linears, norms = [], []
    for block in (f"encoder.blocks.{number}" for number in range(settings.encoder_layers)):
        linears += [
            weights.linear(f"{block}.self_attention.in_projection", 3 * joined, width),
            weights.linear(f"{block}.self_attention.out_projection", width, joined),
            weights.linear(f"{block}.feed_forward.inner", hidden, width),
            weights.linear(f"{block}.feed_forward.outer", width, hidden),
        ]
        norms += [_residual_norm(weights, settings, f"{block}.{part}") for part in ("self", "feed_forward")]
    return linears, _in_order(weights, settings, norms, "encoder")


def decoder_layers(weights: Weights, settings: ModelSettings) -> tuple[list[Linear], list[Linear], list[Norm]]:
    """Return the linear layers of a step, six a block; those of source keys and values, one a block; and norms."""
    width, joined, hidden = settings.model_dim, settings.num_heads * settings.head_dim, settings.feed_forward_dim
    linears, sources, norms = [], [], []
    for block in (f"decoder.blocks.{number}" for number in range(settings.decoder_layers)):
        cross = f"{block}.cross_attention.in_projection"
        if settings.decoder_memory == "ssru":
            linears += [weights.recurrent(f"{block}.recurrence", width), Linear()]
        else:
            linears += [
                weights.linear(f"{block}.self_attention.in_projection", 3 * joined, width),
                weights.linear(f"{block}.self_attention.out_projection", width, joined),
            ]
        linears += [
            weights.linear(cross, 3 * joined, width, slice(joined)),
            weights.linear(f"{block}.cross_attention.out_projection", width, joined),
            weights.linear(f"{block}.feed_forward.inner", hidden, width),
            weights.linear(f"{block}.feed_forward.outer", width, hidden),
        ]
        sources.append(weights.linear(cross, 3 * joined, width, slice(joined, None)))
        parts = ("self", "cross", "feed_forward")
        norms += [_residual_norm(weights, settings, f"{block}.{part}") for part in parts]
    return linears, sources, _in_order(weights, settings, norms, "decoder")


def _residual_norm(weights: Weights, settings: ModelSettings, part: str) -> Norm:
    return weights.norm(f"{part}_residual.norm", settings.model_dim, settings.norm_eps)


def _in_order(weights: Weights, settings: ModelSettings, norms: list[Norm], stack: str) -> list[Norm]:
    """Return the norm before the first linear layer, then the norm after each sub-layer."""
    if settings.norm_placement == "post":
        return [Norm(present=0), *norms]
    return [*norms, weights.norm(f"{stack}.final_norm", settings.model_dim, settings.norm_eps)]
