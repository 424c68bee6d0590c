"""Vectors of lines of text, and of their tokens, by any trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dikkat.nn.masks import length_mask
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.backbone import Backbone
from dikkat.tasks.kinds import part_of
from dikkat_runtime.tasks.batches import length_batches

BATCH_SIZE = 32
BATCH_TOKENS = 8192
WINDOW = 512
"""Lines read ahead, among which those of like length share a batch."""


@dataclass(frozen=True, slots=True)
class Vector:
    """What a model makes of a line or of one of its tokens."""

    line: int
    """Counted from 1."""
    text: str
    """The line, or the label of the token."""
    values: NDArray[np.float32]
    """(D,)"""
    left_out: int = 0
    """Tokens of the line that were too many for the model."""


class Embedder:
    """A trained translator (its encoder), classifier, language model or imported encoder, as a source of vectors."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone

    @classmethod
    def load(cls, path: str | Path) -> Embedder:
        """Load the model of a run directory, in float32.

        Raises `MissingInputError` or `DataError` naming the file, and `UsageError` for a kind without vectors.
        """
        run = RunDirectory.open(Path(path))
        return cls(part_of(run, "backbone", "which this version has no vectors of")(run))

    def sentences(self, lines: Iterable[str], *, window: int = WINDOW) -> Iterator[Vector]:
        """One vector a line, in order and in constant memory; that of a line of white space is zero.

        Neighbours and batches do not change a vector by more than rounding. At most `window` lines are read ahead.
        """
        nothing = np.zeros(self.backbone.width, np.float32)

        def vectors(line: _Line, hidden: Tensor, pooled: Tensor) -> list[Vector]:
            return [Vector(line.number, line.text, pooled.numpy(), line.left_out)]

        return self._stream(lines, vectors, lambda line: [Vector(line.number, line.text, nothing)], window)

    def tokens(self, lines: Iterable[str], *, window: int = WINDOW) -> Iterator[Vector]:
        """A vector a token, special ones included, line by line; a line of white space has no tokens."""

        def vectors(line: _Line, hidden: Tensor, pooled: Tensor) -> list[Vector]:
            pieces = self.backbone.pieces(line.ids)
            rows = zip(pieces, hidden.numpy(), strict=True)
            return [Vector(line.number, piece, values, line.left_out) for piece, values in rows]

        return self._stream(lines, vectors, lambda line: [], window)

    def _stream(self, lines: Iterable[str], of_text: _OfText, of_nothing: _OfNothing, window: int) -> Iterator[Vector]:
        numbered = (self._read(number, text) for number, text in enumerate(lines, start=1))
        while batch := list(islice(numbered, window)):
            found = [of_nothing(line) if not line.ids else [] for line in batch]
            for places in length_batches([len(line.ids) for line in batch], BATCH_SIZE, BATCH_TOKENS):
                hidden, pooled = self._compute([batch[place].ids for place in places])
                for place, states, whole in zip(places, hidden, pooled, strict=True):
                    line = batch[place]
                    found[place] = of_text(line, states[: len(line.ids)], whole)
            for vectors in found:
                yield from vectors

    def _read(self, number: int, text: str) -> _Line:
        if not text.strip():
            return _Line(number, text, [], 0)
        ids = self.backbone.encode(text.strip())
        return _Line(number, text, self.backbone.read(ids), max(0, len(ids) - self.backbone.longest))

    @torch.inference_mode()
    def _compute(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Hidden states (B, S, D) and vectors of the whole (B, D)."""
        lengths = torch.tensor([len(ids) for ids in rows])
        # which id pads is all the same: nothing sees it
        tokens = pad_sequence([torch.tensor(ids) for ids in rows], batch_first=True)
        mask = length_mask(lengths, tokens.shape[1])
        hidden = self.backbone.hidden(tokens, mask)
        return hidden, self.backbone.pooled(hidden, mask)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    ids: list[int]
    left_out: int


_OfText = Callable[[_Line, Tensor, Tensor], list[Vector]]
_OfNothing = Callable[[_Line], list[Vector]]
