"""Keys and values of the sources of a batch, for decoding by PyTorch in bfloat16; see `steps_by_torch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.attention_by_torch import attend, attention_weights
from dikkat.native.encoder_by_torch import additive
from dikkat.native.layers_by_torch import PackedLinear, whole_blocks

KEYS = 16
"""PyTorch attends to fewer, with a mask, more slowly than to so many."""
FEW = 6
"""But to as many more than a multiple in less time than to the next."""
FEWEST = 32
"""Sentences of a group."""
SPARED = 512
"""Keys of all sentences that another group must spare, or its call takes longer."""


@dataclass(slots=True)
class _Group:
    """Sources of like length, in the places from `start` on."""

    start: int
    held: BFloat16[Tensor, "L 2 B H S K"]
    hidden: Float[Tensor, "B 1 1 S"]
    """What is added to scores: minus infinity at padding."""


class SourcesByTorch:
    """The sources of a batch by places, the longest first, in groups that are as wide as their longest.

    Places behind the sentences hold zeros and may attend to them, since nothing would be no number.
    """

    def __init__(
        self,
        product: PackedLinear,
        shape: tuple[int, int],
        memory: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        places: int,
        rows_per_sentence: int,
    ) -> None:
        """`product` makes the keys and values of all layers; `shape` is layers and heads; `mask` is True at tokens."""
        lengths = mask.sum(dim=1)
        # as long ones stay for longer, it is at the end that places come free
        order = lengths.argsort(descending=True, stable=True)
        self.places: list[int] = order.argsort().tolist()
        """Of the sentences of the batch."""
        self._rows = rows_per_sentence
        starts = _starts(lengths[order].tolist())
        ends = [*starts[1:], places]
        rooms = [(end - start, _width(int(lengths[order[start]]))) for start, end in zip(starts, ends, strict=True)]
        memory, mask = memory.to(torch.bfloat16), mask.unsqueeze(2)
        taken = [order[start:end] for start, end in zip(starts, ends, strict=True)]
        parts = [_filled(memory, *each, fill=0.0) for each in zip(taken, rooms, strict=True)]
        allowed = [_filled(mask, *each, fill=True).squeeze(2) for each in zip(taken, rooms, strict=True)]
        rows = torch.cat([part.flatten(0, 1) for part in parts])
        made = torch.cat([product(block) for block in whole_blocks(rows)])[: len(rows)]
        split = torch.split(made, [each.numel() for each in allowed])
        self._groups = [
            # (B S, L 2 H K) -> (L, 2, B, H, S, K)
            _Group(
                start,
                keys.view(*each.shape, shape[0], 2, shape[1], -1).permute(2, 3, 0, 4, 1, 5).contiguous(),
                additive(each)[:, None, None].to(torch.float32 if rows_per_sentence > 1 else torch.bfloat16),
            )
            for start, keys, each in zip(starts, split, allowed, strict=True)
        ]

    @property
    def length(self) -> int:
        """S, the widest."""
        return self._groups[0].held.shape[-2]

    def attend(self, query: BFloat16[Tensor, "R D"], layer: int, beta: float) -> BFloat16[Tensor, "R D"]:
        """What the rows of all places attend to."""
        parts = [
            attend(own, group.held[layer], group.hidden, beta).transpose(1, 2).flatten(0, 1).flatten(1)
            for group, own in zip(self._groups, self._split(query), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def weights(self, query: BFloat16[Tensor, "R D"], layer: int, beta: float) -> Float[Tensor, "R H S"]:
        """What they attend with."""
        parts = [
            attention_weights(own, group.held[layer, 0], group.hidden, beta).transpose(1, 2).flatten(0, 1)
            for group, own in zip(self._groups, self._split(query), strict=True)
        ]
        return torch.cat([F.pad(part, (0, self.length - part.shape[-1])) for part in parts])

    def move(self, moves: dict[int, int]) -> None:
        """From places to others before them."""
        for old, new in moves.items():
            source, target = self._group_of(old), self._group_of(new)
            own, place, width = old - source.start, new - target.start, source.held.shape[-2]
            target.held[:, :, place, :, :width] = source.held[:, :, own]
            target.hidden[place, ..., width:] = -torch.inf
            target.hidden[place, ..., :width] = source.hidden[own]

    def keep(self, places: int) -> None:
        """The first so many."""
        self._groups = [group for group in self._groups if group.start < places]
        last = self._groups[-1]
        last.held, last.hidden = last.held[:, :, : places - last.start], last.hidden[: places - last.start]

    def _group_of(self, place: int) -> _Group:
        return next(group for group in reversed(self._groups) if group.start <= place)

    def _split(self, query: BFloat16[Tensor, "R D"]) -> tuple[Tensor, ...]:
        # (B rows, H K) -> (B, H, rows, K)
        heads = self._groups[0].held.shape[3]
        grouped = query.view(-1, self._rows, heads, query.shape[1] // heads).transpose(1, 2)
        return torch.split(grouped, [len(group.hidden) for group in self._groups])


def _starts(lengths: Sequence[int]) -> list[int]:
    """Where groups begin in falling lengths."""
    starts = [0]
    for place, length in enumerate(lengths):
        spared = (_width(lengths[starts[-1]]) - _width(length)) * (len(lengths) - place)
        if place >= starts[-1] + FEWEST and spared >= SPARED:
            starts.append(place)
    return starts


def _filled(x: Tensor, sentences: Tensor, room: tuple[int, int], *, fill: float) -> Tensor:
    """Of x (B, S, N) some sentences, in as many places and columns as there is room for: zeros behind each, and `fill`
    in places behind all.
    """
    places, width = room
    found = x[sentences, :width]
    found = F.pad(found, (0, 0, 0, width - found.shape[1]))
    return F.pad(found, (0, 0, 0, 0, 0, places - len(found)), value=fill)


def _width(length: int) -> int:
    """Columns for sentences of at most so many tokens."""
    return length if length > KEYS and length % KEYS <= FEW else length + -length % KEYS
