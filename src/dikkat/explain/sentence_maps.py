"""Every attention map of one sentence that a model read, and of what it wrote while reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap, Kind, Stack
from dikkat_runtime.errors import UsageError

BEGIN, END = "<bos>", "<eos>"
"""The first token that a decoder is fed, and the last that is read."""

Side = TypeVar("Side")
Place = tuple[Stack, Kind, int, int | None]
"""Stack, kind, layer and head (None for the mean of heads), both from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class SentenceMaps:
    """One sentence, one output, and the maps that were recorded of them."""

    source: str
    """The text as it was read."""
    output: str
    """The text as it was written; "" for a model that only reads."""
    source_tokens: tuple[str, ...]
    """S tokens that an encoder reads: the pieces of `source` with its special tokens, of a translator `<eos>` at the
    end; none without an encoder."""
    output_tokens: tuple[str, ...]
    """T tokens that a decoder is fed: `<bos>`, then the pieces of `output`; of a language model those of `source`; none
    without a decoder."""
    maps: tuple[AttentionMap, ...]
    occluded: NDArray[np.float64] | None = None
    """(T, S), what the log-probability of each written token loses when a source token is hidden; None where nobody
    asked for it."""

    def select(
        self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None
    ) -> tuple[AttentionMap, ...]:
        """The maps of one attention, in order of layer and head, both counted from 0; None is every one.

        Raises `UsageError`, which counts from 1, with the choices there are.
        """
        require_known_map(map(place_of, self.maps), stack, kind, layer, head)
        found = [
            each
            for each in self.maps
            if (each.stack, each.kind) == (stack, kind) and layer in (None, each.layer) and head in (None, each.head)
        ]
        return tuple(sorted(found, key=lambda each: (each.layer, -1 if each.head is None else each.head)))


def place_of(each: AttentionMap) -> Place:
    """Where a map comes from."""
    return each.stack, each.kind, each.layer, each.head


def axes_of(stack: Stack, kind: Kind, source: Side, output: Side) -> tuple[Side, Side]:
    """What stands at the query axis and at the key axis of a map, of what belongs to the source and to the output."""
    return source if stack == "encoder" else output, output if (stack, kind) == ("decoder", "self") else source


def with_written_rows(each: AttentionMap) -> AttentionMap:
    """A map for a person to look at: the rows of cross-attention are named by the tokens that they wrote.

    Row t, fed token t, wrote token t + 1, and the last row wrote the end mark. Any other map comes back as it is.
    """
    if each.kind != "cross" or each.query_tokens[:1] != (BEGIN,):
        return each
    return replace(each, query_tokens=(*each.query_tokens[1:], END))


def attention_name(stack: str, kind: str) -> str:
    """As a sentence names it: "encoder self-attention", "decoder self-attention", "cross-attention"."""
    return "cross-attention" if kind == "cross" else f"{stack} {kind}-attention"


def mean_of_heads(maps: Sequence[AttentionMap]) -> AttentionMap:
    """The mean of maps with the same tokens, as one map of the first one's layer. Raises `ValueError` without maps."""
    if not maps:
        raise ValueError("there is no attention map to take the mean of")
    first = maps[0]
    weights = np.mean([each.weights for each in maps], axis=0)
    return AttentionMap(weights, first.query_tokens, first.key_tokens, first.stack, first.layer, None, first.kind)


def require_known_map(places: Iterable[Place], stack: Stack, kind: Kind, layer: int | None, head: int | None) -> None:
    """Raise `UsageError`, with the choices there are, unless one of `places` fits; None fits every one."""
    there = list(places)
    name = attention_name(stack, kind)
    found = [place for place in there if place[:2] == (stack, kind)]
    if not found:
        known = dict.fromkeys(attention_name(*place[:2]) for place in there)
        raise UsageError(f"there is no {name} here; choose from {', '.join(known) or 'nothing: no map was recorded'}")
    heads = {place[3] for place in found if place[3] is not None}
    for what, number, numbers in (("layer", layer, {place[2] for place in found}), ("head", head, heads)):
        if number is not None and number not in numbers:
            raise UsageError(f"there is no {what} {number + 1} in the {name}: choose from {_listed(numbers)}")


def _listed(numbers: Iterable[int]) -> str:
    listed = [number + 1 for number in sorted(numbers)]
    if len(listed) > 2 and listed[-1] - listed[0] + 1 == len(listed):
        return f"{listed[0]} to {listed[-1]}"
    return ", ".join(map(str, listed)) or "none: only the mean of heads is here"
