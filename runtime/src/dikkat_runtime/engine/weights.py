"""Read the weights of a model by their names, in the layout of the kernels."""

import ctypes
from collections.abc import MutableMapping, Sequence
from ctypes import POINTER, c_float, c_int8, c_int32
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.native.arrays import Array, address, aligned, empty, full
from dikkat_runtime.native.library import Grouped, Linear, Norm, Packing, Words, library
from dikkat_runtime.run.weights import DOWN, UP, factors_of
from dikkat_runtime.special_tokens import EOS_ID

PANEL, QUAD, LANES, RANKS = 64, 4, 16, 8
"""Outputs of a panel of bytes, bytes that are multiplied together, numbers of a vector, ranks computed side by side."""


@dataclass(frozen=True)
class Weights:
    """Named arrays of one model, each checked against the shape that the settings ask for."""

    arrays: MutableMapping[str, Array]
    where: str
    """The file, for messages."""
    in_bytes: bool
    threads: int
    group_bits: int = 0
    """Bits of a weight where groups of inputs have scales of their own, as language models need; 0 for none."""
    base: "Weights | None" = None
    """Weights of an equal model, whose arrays and layers are used; `arrays` are factors of what is added to them."""
    used: set[str] = field(default_factory=set)
    _shared: dict[Any, Any] = field(default_factory=dict)
    """Arrays and linear layers by name, sizes and rows, for those who share them."""
    _kept: list[Array] = field(default_factory=list)
    """The arrays that C reads in place."""

    def array(self, name: str, *shape: int) -> Array:
        """Return one array that C can read, and keep it. Raises as `_copy`."""
        array: Array | None = self._shared.get((name, shape))
        if array is None:
            array = self._shared[name, shape] = self._whole(name, *shape)
            self._kept.append(array)
        return array

    def _whole(self, name: str, *shape: int) -> Array:
        """Return a copy of an array, or that of the base with what is added to it."""
        if self.base is None:
            return self._copy(name, *shape)
        array, factors = self.base.array(name, *shape), self._factors(name, shape)
        return array if factors is None else aligned(array + factors[0] @ factors[1])

    def _factors(self, name: str, shape: tuple[int, ...]) -> tuple[Array, Array] | None:
        """Return the factors of what is added to an array; None where nothing is. Raises `DataError`."""
        own = {name + UP, name + DOWN}
        if self.base is None or own.isdisjoint(self.arrays):
            return None
        self.used.update(own)
        return factors_of(self.arrays, name, shape, Path(self.where))

    def _copy(self, name: str, *shape: int) -> Array:
        """Return a copy of one array. Raises `DataError` where it is missing or has another shape or type."""
        source = self.arrays.get(name)
        if source is None:
            raise self._unfit(msg("parameter {name} is missing", name))
        if source.shape != shape:
            raise self._unfit(msg("parameter {name} has the shape {shape}, not {expected}", name, source.shape, shape))
        if source.dtype != np.float32:
            raise DataError(
                "{where}: damaged: {name} is {dtype}, not float32; restore the file", self.where, name, source.dtype
            )
        if not np.isfinite(source).all():
            raise DataError("{where}: damaged: {name} holds values that are not finite; train again", self.where, name)
        self.used.add(name)
        return aligned(source)

    def has(self, name: str) -> bool:
        """Return whether there is an array of this name; a linear layer may have no bias."""
        return name in self.used or name in self.arrays or (self.base is not None and self.base.has(name))

    def linear(self, name: str, outputs: int, inputs: int, rows: slice = slice(None)) -> Linear:
        """Return some `rows` of a linear layer, in eight bits where weights are: then it holds no other numbers.

        What is added to the matrix of a base stays in its factors, which are multiplied one after the other.
        """
        key = name, outputs, inputs, rows.start, rows.stop
        layer: Linear | None = self._shared.get(key)
        if layer is not None:
            return layer
        if self.base is not None:
            factors = self._factors(f"{name}.weight", (outputs, inputs))
            layer = self._adapted(self.base.linear(name, outputs, inputs, rows), factors, rows)
        else:
            bias = self.array(f"{name}.bias", outputs) if self.has(f"{name}.bias") else None
            weight = (self._copy if self.in_bytes else self.array)(f"{name}.weight", outputs, inputs)
            layer = self.matrix(weight[rows], None if bias is None else bias[rows], is_kept=False)
            if self.in_bytes:
                layer.weight = None
        self._shared[key] = layer
        return layer

    def _adapted(self, layer: Linear, factors: tuple[Array, Array] | None, rows: slice) -> Linear:
        """Return some rows of a layer of the base with the factors of what is added to its whole matrix."""
        if factors is None:
            return layer
        (ups, down), scales = factors, np.ones(len(factors[1]))
        if self.in_bytes:
            (columns, some), (down, others) = map(_in_bytes, (ups.T, down))
            ups, scales = columns.T, some * others
        more, up = -len(down) % RANKS, ups[rows]
        up = np.pad(up, ((0, -len(up) % PANEL), (0, more)))
        down = np.pad(down, ((0, more), (0, -down.shape[1] % LANES)))
        adapted, dtype, pair = Linear.from_buffer_copy(layer), "f4", 1
        if self.in_bytes:
            # (R, I) -> (R / 8, I / 2, 8, 2), where pairs are multiplied together
            down, dtype, pair = down.reshape(-1, RANKS, down.shape[1] // 2, 2).swapaxes(1, 2), "i1", 2
        # (outputs, R) -> (panels, R / pair, outputs of a panel, pair)
        up = up.reshape(-1, PANEL, up.shape[1] // pair, pair).swapaxes(1, 2)
        both, low = aligned(np.concatenate((down.ravel(), up.ravel())), dtype), aligned(np.pad(scales, (0, more)))
        self._kept.extend((both, low))
        adapted.rank, adapted.low_scales = len(low), address(low)
        adapted.down, adapted.up = address(both), address(both[down.size :])
        return adapted

    def matrix(self, weight: Array, bias: Array | None = None, *, is_kept: bool = True) -> Linear:
        """Return a linear layer of a matrix (outputs, inputs); one that `is_kept` has an address of its own."""
        if self.base is not None and any(weight is array for array in self.base._kept):
            return self.base.matrix(weight, bias)
        key = address(weight), address(bias), weight.shape
        layer: Linear | None = self._shared.get(key) if is_kept else None
        if layer is None:
            packed = self._packed(weight) if self.in_bytes else ()
            layer = Linear(address(weight), address(bias), weight.shape[1], weight.shape[0], *map(address, packed))
        if is_kept:
            self._shared[key] = layer
        return layer

    def layer(self, name: str, outputs: int, inputs: int) -> Linear | Grouped:
        """Return a linear layer in the precision of the weights, in groups where they are so."""
        if not self.group_bits:
            return self.linear(name, outputs, inputs)
        bias = self.array(f"{name}.bias", outputs) if self.has(f"{name}.bias") else None
        return self.grouped(self._copy(f"{name}.weight", outputs, inputs), bias)

    def grouped(self, weight: Array, bias: Array | None, bits: int | None = None) -> Grouped:
        """Return a linear layer of a matrix (outputs, inputs) of which each group of inputs has a scale of its own."""
        layer = Grouped(None, address(bias), weight.shape[1], weight.shape[0], bits or self.group_bits)
        packed = empty(library()[0].grouped_bytes(ctypes.byref(layer)), np.uint8)
        layer.weight = address(packed)
        library()[0].pack_groups(ctypes.byref(layer), address(weight), weight.strides[0] // 4, self.threads)
        self._kept.append(packed)
        return layer

    def table(self, name: str, rows: int, width: int) -> Array | Grouped:
        """Return a matrix whose rows are embeddings: where layers are in groups, in groups too, of eight bits."""
        if not self.group_bits:
            return self.array(name, rows, width)
        if (name, rows) not in self._shared:
            self._shared[name, rows] = self.grouped(self._copy(name, rows, width), None, bits=8)
        packed: Grouped = self._shared[name, rows]
        return packed

    def output(self, table: Array | Grouped, bias: Array | None) -> Linear | Grouped:
        """Return the linear layer of a matrix, which may be a table of embeddings too."""
        if isinstance(table, Grouped):
            return Grouped(table.weight, address(bias), table.inputs, table.outputs, table.bits)
        return self.matrix(table, bias)

    def recurrent(self, name: str, width: int) -> Linear:
        """Return content (no bias) and forget gate of a recurrent unit as one linear layer, the content first."""
        parts = [f"{name}.{part}.weight" for part in ("content", "forget")]
        if self.base is not None and not any(part + UP in self.arrays for part in parts):
            return self.base.recurrent(name, width)
        layer: Linear | None = self._shared.get(name)
        if layer is None and self.base is not None:
            nothing = empty((width, 0)), empty((0, width))
            (up, down), (other_up, other_down) = (self._factors(part, (width, width)) or nothing for part in parts)
            # each half of the outputs has factors of its own
            ups = np.block([[up, np.zeros_like(other_up)], [np.zeros_like(up), other_up]])
            factors = ups, np.concatenate((down, other_down))
            layer = self._shared[name] = self._adapted(self.base.recurrent(name, width), factors, slice(None))
        elif layer is None:
            content, forget = (self._copy(part, width, width) for part in parts)
            bias = self.array(f"{name}.forget.bias", width)
            both = aligned(np.concatenate((content, forget))), aligned(np.concatenate((np.zeros_like(bias), bias)))
            layer = self._shared[name] = self.matrix(*both, is_kept=False)
            self._kept.extend(both)
        return layer

    def norm(self, name: str, width: int, eps: float) -> Norm:
        """Return a layer norm over `width` entries."""
        weight, bias = self.array(f"{name}.weight", width), self.array(f"{name}.bias", width)
        return Norm(address(weight), address(bias), 1, eps)

    def forget_file(self) -> None:
        """Let go of the arrays of the file, once all that C reads is copied; those of the base too."""
        self.arrays.clear()
        if self.base is not None:
            self.base.forget_file()

    def check_all_used(self) -> None:
        """Raise `DataError` for weights that no part of the model has asked for, those of the base included."""
        if self.base is not None:
            self.base.check_all_used()
        if left := sorted(set(self.arrays) - self.used):
            raise self._unfit(msg("no parameter is called {name}", left[0]))

    def _unfit(self, reason: str) -> DataError:
        return DataError(
            "{file}: does not fit {config}: {error}", self.where, Path(self.where).with_name("config.json"), reason
        )

    def _packed(self, weight: Array) -> tuple[Array, Array, Array]:
        """Return eight-bit panels of a matrix, a scale for each output, and the shift that unsigned products need."""
        outputs, inputs = weight.shape
        panels, quads = -(-outputs // PANEL), -(-inputs // LANES) * (LANES // QUAD)
        packed = (empty((panels, quads, PANEL, QUAD), np.int8), empty(panels * PANEL), empty(panels * PANEL, np.int32))
        packing = Packing(*map(address, (*packed, weight)), weight.strides[0] // 4, outputs, inputs, 0, 1)
        if library()[0].pack_bytes(ctypes.byref(packing), self.threads):
            raise MemoryError(msg("no memory left to pack the weights"))
        self._kept.extend(packed)
        return packed


def _in_bytes(rows: Array) -> tuple[Array, Array]:
    """Return rows of whole numbers of at most 127, and what each row is multiplied with."""
    scales = np.abs(rows).max(1) / np.float32(127)
    return np.rint(rows / np.where(scales, scales, 1)[:, None]), scales


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
        norms += [_residual_norm(weights, settings, f"{block}.{part}") for part in ("self", "cross", "feed_forward")]
    return linears, sources, _in_order(weights, settings, norms, "decoder")


def _residual_norm(weights: Weights, settings: ModelSettings, part: str) -> Norm:
    return weights.norm(f"{part}_residual.norm", settings.model_dim, settings.norm_eps)


def _in_order(weights: Weights, settings: ModelSettings, norms: list[Norm], stack: str) -> list[Norm]:
    """Return the norm before the first linear layer, then the norm after each sub-layer."""
    if settings.norm_placement == "post":
        return [Norm(present=0), *norms]
    return [*norms, weights.norm(f"{stack}.final_norm", settings.model_dim, settings.norm_eps)]


# The output matrix as the kernels read single words of it, and the words of the sentences of a batch.

WORD_BYTES = 64
"""The weights of a word in eight bits are padded to a multiple of so many bytes."""


class WordRows:
    """Rows of an output matrix, each one word's."""

    def __init__(self, output: Linear, bias: Array | None) -> None:
        """`output` is the matrix with its bias (V,); both must live as long as this."""
        self._words, self._weights = output.outputs, None
        if output.packed_weight:
            self._weights, self._scales, self._shifts = _unpacked(output)
            self._biases = full(self._words, 0.0) if bias is None else bias

    def of(self, listed: Sequence[Array], least: int, is_whole: Sequence[bool]) -> "WordsOfBatch":
        """Return the words of a batch from those listed for each sentence, of which search ranks at least `least`.

        Where a list is shorter, the words of the lowest ids are added. A sentence that `is_whole` may write all words.
        """
        every = np.arange(self._words, dtype=np.int32)
        ids = []
        for words, whole in zip(listed, is_whole, strict=True):
            chosen = words if len(words) >= least else np.union1d(words, every[EOS_ID : EOS_ID + least])
            ids.append(every if whole or len(chosen) < least else chosen)
        starts = aligned(np.array([0, *accumulate(map(len, ids))]), np.int64)
        joined = aligned(np.concatenate(ids), np.int32)
        if self._weights is None:
            return WordsOfBatch(starts, joined)
        arrays = aligned(self._scales[joined]), aligned(self._biases[joined]), aligned(self._shifts[joined], np.int32)
        return WordsOfBatch(starts, joined, self._weights, *arrays)


class WordsOfBatch:
    """The words of the sentences of a batch, which must live as long as C reads them."""

    def __init__(self, *arrays: Array) -> None:
        self._job, self._kept = Words(*map(address, arrays)), arrays

    @property
    def address(self) -> int:
        return ctypes.addressof(self._job)


def _unpacked(output: Linear) -> tuple[Array, Array, Array]:
    """Return rows (V, D in whole `WORD_BYTES`) of a matrix of eight-bit panels, and scale and shift of each word."""
    panels, quads = -(-output.outputs // PANEL), -(-output.inputs // LANES) * (LANES // QUAD)
    columns = quads * QUAD
    # the four bytes of a quad stay together
    packed = _array(output.packed_weight, c_int8, panels * PANEL * columns).view(np.int32).reshape(panels, quads, PANEL)
    rows = full((output.outputs, -(-columns // WORD_BYTES) * WORD_BYTES), 0, np.int8)
    by_word = packed.transpose(0, 2, 1).reshape(panels * PANEL, quads)
    rows[:, :columns] = np.ascontiguousarray(by_word[: output.outputs]).view(np.int8)
    scales = _array(output.packed_scale, c_float, output.outputs)
    return rows, scales, _array(output.packed_shift, c_int32, output.outputs)


def _array(start: int, kind: type[c_int8] | type[c_float] | type[c_int32], count: int) -> Array:
    return np.ctypeslib.as_array(ctypes.cast(start, POINTER(kind)), (count,))
