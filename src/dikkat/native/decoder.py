"""The native decoding step over tensors: rows of hypotheses with their cache, and the same logits as PyTorch's step."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.calls import address, checked, index_address, native_library
from dikkat.native.layers import LinearWeights, NormWeights, linear_array, norm_array, pointer
from dikkat.native.library import library
from dikkat.native.threads import num_threads

LANES = 16
"""Positions of one block of keys, as in vectors.h."""
PAIR = 32
"""Numbers that a row of bfloat16 is padded to a multiple of, as in narrow.h."""
FIRST_CAPACITY = 32
"""Target positions that the cache has room for before it first grows."""


@dataclass(frozen=True, eq=False)
class DecoderWeights:
    """All that a step computes with: contiguous float32 tensors on the CPU, read where they lie at each step."""

    num_heads: int
    head_dim: int
    post_norm: bool
    gelu: bool
    """Else ReLU."""
    embedding: Tensor
    """(V, D)."""
    embedding_scale: float
    linears: tuple[LinearWeights, ...]
    """Six a layer: self-attention in and out, cross-attention query and out, feed-forward inner and outer; the output
    matrix at the end."""
    sources: tuple[LinearWeights, ...]
    """What makes keys and values of the source, in one matrix a layer."""
    norms: tuple[NormWeights | None, ...]
    """What precedes the first linear layer, then what follows each of the three sub-layers of each layer."""
    betas: tuple[float, ...]
    """Inverse temperatures of self- and cross-attention, of each layer."""

    @property
    def num_layers(self) -> int:
        return len(self.betas) // 2

    @property
    def in_bytes(self) -> bool:
        """Whether weights are in eight bits; then keys and values are in bfloat16."""
        return self.linears[0].packed is not None

    @cached_property
    def arrays(self) -> tuple[ctypes.Array[Any], ...]:
        """For C: linear layers, norms, betas and sources; they must not outlive the tensors."""
        betas = (c_float * len(self.betas))(*self.betas)
        return linear_array(self.linears), norm_array(self.norms), betas, linear_array(self.sources)


class DecoderJob(ctypes.Structure):
    """`Decoder` of decoder.h."""

    _fields_ = (
        *((name, c_int64) for name in ("layers", "width", "heads", "head_width", "hidden", "vocabulary")),
        ("embedding", c_void_p),
        ("embedding_scale", c_float),
        ("post_norm", c_int64),
        ("gelu", c_int64),
        *((name, c_void_p) for name in ("linears", "norms", "betas")),
        *((name, c_int64) for name in ("slots", "capacity", "sentences", "source_length")),
        *((name, c_void_p) for name in ("keys", "values", "source_keys", "source_values", "writers", "source_mask")),
        ("rows", c_int64),
        ("length", c_int64),
        *((name, c_void_p) for name in ("row_slots", "row_owners", "begun")),
        ("threads", c_int64),
        ("scratch", c_void_p),
        ("seen", c_void_p),
    )


class DecoderSteps:
    """The steps of B sentences with `rows_per_sentence` hypotheses each, and the cache that they fill.

    A row keeps its keys and values in a slot of its own. When rows are reordered, the first row that goes on from
    another takes over its slot, and only the further ones need a copy; when sentences leave, nothing moves. In eight
    bits positions stay in the slot of the row that wrote them, and what is copied is only where they lie.
    """

    def __init__(
        self,
        weights: DecoderWeights,
        memory: Tensor,
        mask: Tensor,
        rows_per_sentence: int,
    ) -> None:
        """`memory` (B, S, D) is the source as the encoder left it; `mask` (B, S) is True at tokens."""
        sentences = mask.shape[0]
        self.weights = weights
        self.sentences = list(range(sentences))
        """Numbers, in the batch this began with, of those still in it."""
        self.rows_per_sentence = rows_per_sentence
        self._slots = list(range(sentences * rows_per_sentence))
        self._library = native_library("can_step")
        self._library.decoder_scratch.restype = c_int64
        self.job = _job(weights)
        """What C is given."""
        self.job.slots, self.job.sentences = len(self._slots), sentences
        self.job.threads = num_threads()
        self._read_source(memory, mask)
        self._keys: Tensor
        self._values: Tensor
        self._writers: Tensor
        """(slots, capacity), see `Decoder` of decoder.h."""
        self._make_room(FIRST_CAPACITY)
        self._place_rows()

    @property
    def length(self) -> int:
        """Target positions held: the position of the next token."""
        return int(self.job.length)

    @property
    def rows(self) -> int:
        """R, rows of the sentences that are still in."""
        return int(self.job.rows)

    def step(self, tokens: Tensor, position: Tensor, seen: Mapping[int, Tensor] = MappingProxyType({})) -> Tensor:
        """Logits (R, V) of the token after `tokens` (R,); `position` (D,) is added to each of their embeddings.

        The tensors of `seen`, from `room_for_weights`, are filled with what this step attends with.
        Raises `IndexError` for a token outside the vocabulary and `ValueError` for more or fewer tokens than rows, or
        for a position of another width.
        """
        if tokens.shape != (self.rows,):
            raise ValueError(f"the cache has {self.rows} rows, but the tokens have the shape {tuple(tokens.shape)}")
        if position.shape != (self.job.width,):
            raise ValueError(f"the model is {self.job.width} wide, but the position has {tuple(position.shape)}")
        if self.length == self.job.capacity:
            self.grow()
        tokens, position = tokens.to("cpu", torch.int64).contiguous(), position.to(torch.float32).contiguous()
        logits = torch.empty(self.rows, self.job.vocabulary)
        self.show(seen)
        job, ids = ctypes.byref(self.job), index_address(tokens, (self.rows,), "tokens")
        code = self._library.decoder_step(job, ids, address(position), address(logits))
        checked(code, "a token", self.job.vocabulary)
        self.job.length += 1
        return logits

    def show(self, seen: Mapping[int, Tensor]) -> None:
        """The next step fills these, from `room_for_weights`, with what it attends with; they must outlive it."""
        places = range(len(self.weights.betas))
        self._seen = (c_void_p * len(places))(*(pointer(seen.get(place)) for place in places))
        self.job.seen = ctypes.addressof(self._seen) if seen else None

    def grow(self) -> None:
        """Room for twice as many positions."""
        self._make_room(2 * self.job.capacity)

    def room_for_weights(self, attention: int) -> Tensor:
        """Of the next step, (R, H, S): `attention` counts self- and cross-attention, a layer."""
        keys = self.job.source_length if attention % 2 else self.length + 1
        # zero, since padding at the end of a source is not read
        return torch.zeros(self.rows, self.weights.num_heads, keys)

    def reorder(self, index: Tensor) -> None:
        """Row r goes on from what row `index[r]` had, of the same sentence; as many rows as before.

        Raises `ValueError` for more or fewer rows, and `IndexError` for a row that is none of the same sentence.
        """
        parents, each = index.tolist(), self.rows_per_sentence
        if len(parents) != self.rows:
            raise ValueError(f"the cache has {self.rows} rows, but {len(parents)} are to go on from them")
        for row, parent in enumerate(parents):
            if parent // each != row // each:
                raise IndexError(f"row {row} cannot go on from row {parent}, which is not of the same sentence")
        self._continue_from(parents)

    def drop(self, keep: Tensor) -> None:
        """Only the sentences at these places stay. Raises `IndexError` for a place that is none, or is there twice."""
        places, rows = keep.tolist(), self.rows_per_sentence
        if len({*places}) < len(places) or not {*places} <= {*range(len(self.sentences))}:
            raise IndexError(f"of {len(self.sentences)} sentences, those at {places} cannot stay")
        self.sentences = [self.sentences[place] for place in places]
        self._continue_from([place * rows + row for place in places for row in range(rows)])

    def keys_and_values(self) -> list[tuple[Tensor, Tensor]]:
        """What the cache holds of each layer, as PyTorch's step keeps it: (R, H, T, K) each, in copies."""
        slots = torch.tensor(self._slots, dtype=torch.int64)
        parts = self._held_in_bfloat16(slots) if self.weights.in_bytes else self._held_in_float32(slots)
        width = self.weights.head_dim
        return list(zip(*(part[:, :, :, : self.length, :width].unbind(0) for part in parts), strict=True))

    def _held_in_float32(self, slots: Tensor) -> list[Tensor]:
        # (L, slots, H, blocks, K, 16) -> (L, slots, H, blocks * 16, K)
        keys = self._keys.transpose(4, 5).flatten(3, 4)
        return [part.index_select(1, slots) for part in (keys, self._values)]

    def _held_in_bfloat16(self, slots: Tensor) -> list[Tensor]:
        writers = self._writers[slots, : self.length].to(torch.int64)
        places = torch.arange(self.length)
        found = []
        for part in (self._keys, self._values):
            # (L, slots, H, T, K) -> (L, slots, T, H, K) -> (L, R, T, H, K) -> (L, R, H, T, K)
            held = part.transpose(2, 3)[:, writers, places].transpose(2, 3).float()
            # of each 32 numbers, i and i + 16 are side by side
            found.append(held.reshape(*held.shape[:4], -1, LANES, 2).transpose(5, 6).flatten(4))
        return found

    def _read_source(self, memory: Tensor, mask: Tensor) -> None:
        job, length = self.job, mask.shape[1]
        self._source_mask = F.pad(mask.to(torch.uint8), (0, -length % LANES))
        job.source_length, job.source_mask = self._source_mask.shape[1], self._source_mask.data_ptr()
        self._source = _rooms(self.weights, job.sentences, job.source_length)
        job.source_keys, job.source_values = (part.data_ptr() for part in self._source)
        beside = -memory.shape[2] % LANES
        rows = (F.pad(memory, (0, beside)) if beside else memory).contiguous()
        *_, linears = self.weights.arrays
        code = self._library.decoder_read_source(ctypes.byref(job), address(rows), c_int64(length), linears)
        if code:
            raise MemoryError("no memory left to read the source")

    def _continue_from(self, parents: list[int]) -> None:
        wanted = [self._slots[parent] for parent in parents]
        free = sorted(set(range(self.job.slots)).difference(wanted), reverse=True)
        taken: set[int] = set()
        copies: list[tuple[int, int]] = []
        for row, slot in enumerate(wanted):
            if slot in taken:
                copies.append((slot, free.pop()))
                wanted[row] = copies[-1][1]
            taken.add(slot)
        if copies and self.length:
            numbers = c_int64 * len(copies)
            sources, targets = zip(*copies, strict=True)
            job = ctypes.byref(self.job)
            code = self._library.decoder_copy(job, numbers(*sources), numbers(*targets), c_int64(len(copies)))
            checked(code, "a slot", self.job.slots)
        self._slots = wanted
        self._place_rows()

    def _place_rows(self) -> None:
        self.job.rows = len(self._slots)
        numbers = c_int64 * self.rows
        self._row_slots = numbers(*self._slots)
        self._row_owners = numbers(*(owner for owner in self.sentences for _ in range(self.rows_per_sentence)))
        # all rows begin together
        self._begun = numbers()
        self.job.row_slots, self.job.begun = ctypes.addressof(self._row_slots), ctypes.addressof(self._begun)
        self.job.row_owners = ctypes.addressof(self._row_owners)

    def _make_room(self, capacity: int) -> None:
        """Room for `capacity` positions, a multiple of 16."""
        job = self.job
        keys, values = _rooms(self.weights, job.slots, capacity)
        writers = torch.empty(job.slots, capacity if self.weights.in_bytes else 0, dtype=torch.int32)
        if job.length:
            keys[:, :, :, : self._keys.shape[3]] = self._keys
            values[:, :, :, : self._values.shape[3]] = self._values
            writers[:, : self._writers.shape[1]] = self._writers
        self._keys, self._values, self._writers = keys, values, writers
        job.capacity, job.keys, job.values = capacity, keys.data_ptr(), values.data_ptr()
        job.writers = writers.data_ptr()
        # zero, since products read the padding of every row
        self._scratch = torch.zeros(self._library.decoder_scratch(ctypes.byref(job)))
        job.scratch = self._scratch.data_ptr()


def can_step() -> bool:
    """Whether the native step is here."""
    return library() is not None


def _job(weights: DecoderWeights) -> DecoderJob:
    """The structure, which must not outlive the weights."""
    linears, norms, betas, _ = weights.arrays
    return DecoderJob(
        layers=weights.num_layers,
        width=weights.embedding.shape[1],
        heads=weights.num_heads,
        head_width=weights.head_dim,
        hidden=max((each.weight.shape[0] for each in weights.linears[4:-1:6]), default=0),
        vocabulary=weights.embedding.shape[0],
        embedding=weights.embedding.data_ptr(),
        embedding_scale=weights.embedding_scale,
        post_norm=weights.post_norm,
        gelu=weights.gelu,
        linears=ctypes.addressof(linears),
        norms=ctypes.addressof(norms),
        betas=ctypes.addressof(betas),
    )


def _rooms(weights: DecoderWeights, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Empty keys (L, rows, H, length / 16, K, 16) and values (L, rows, H, length, K in whole vectors).

    In eight bits, (L, rows, H, length, K in whole pairs of vectors) both.
    """
    shape, width = (weights.num_layers, rows, weights.num_heads), weights.head_dim
    if weights.in_bytes:
        keys = torch.empty(*shape, length, width + -width % PAIR, dtype=torch.bfloat16)
        return keys, torch.empty_like(keys)
    return torch.empty(*shape, length // LANES, width, LANES), torch.empty(*shape, length, width + -width % LANES)
