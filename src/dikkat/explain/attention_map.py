"""The attention weights of one head on one sentence, with the labels of their rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from dikkat_runtime.errors import UsageError, joined, msg
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS

Stack = Literal["encoder", "decoder"]
Kind = Literal["self", "cross"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMap:
    """Hold the weights (T, S) of one head; row t is how query token t spreads its attention over the keys.

    Raises `ValueError` when the weights do not have one row a query token and one column a key token.
    """

    # Not "T S": the run-time shape checks of tests would hide the constructor's own message.
    weights: Float[np.ndarray, "..."]
    """(T, S): queries are rows, keys are columns."""
    query_tokens: tuple[str, ...]
    """Labels of the T queries."""
    key_tokens: tuple[str, ...]
    """Labels of the S keys."""
    stack: Stack
    layer: int
    """Layer, from 0."""
    head: int | None
    """Head, from 0; None for the mean of all heads."""
    kind: Kind

    def __post_init__(self) -> None:
        if self.weights.ndim != 2:
            raise ValueError(
                f"attention weights have the axes (T, S), but {self.weights.ndim} axes {self.weights.shape} were given;"
                " pick one sentence and one head"
            )
        for axis, tokens, length in (
            (msg("query axis T"), self.query_tokens, self.weights.shape[0]),
            (msg("key axis S"), self.key_tokens, self.weights.shape[1]),
        ):
            if len(tokens) != length:
                raise ValueError(f"{axis}: the weights have {length} positions, but {len(tokens)} tokens were given")
        if self.stack == "encoder" and self.kind == "cross":
            raise ValueError('an encoder has no cross-attention; stack "decoder" has')


# The attention maps of one sentence that a model read, and of what it wrote.

BEGIN, END = SPECIAL_TOKENS[BOS_ID], SPECIAL_TOKENS[EOS_ID]
"""The first token that a decoder is fed, and the last that is read."""

Side = TypeVar("Side")
MapKey = tuple[Stack, Kind, int, int | None]
"""Stack, kind, layer and head (None for the mean of heads), both from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class SentenceMaps:
    """Hold one sentence, one output, and the maps that were recorded of them."""

    source: str
    """Text that was read."""
    output: str
    """Text that was written; "" for a model that only reads."""
    source_tokens: tuple[str, ...]
    """S tokens that an encoder reads: the pieces of `source` with its special tokens, of a translator mostly `<eos>`
    at the end; none without an encoder."""
    output_tokens: tuple[str, ...]
    """T tokens that a decoder is fed: `<bos>`, then the pieces of `output`; of a language model those of `source`; none
    without a decoder."""
    maps: tuple[AttentionMap, ...]
    occluded: NDArray[np.float64] | None = None
    """(T, S), what the log-probability of each written token loses when a source token is hidden; None if not asked
    for."""
    forced: int = 0
    """Tokens that a decoder is fed after `<bos>` whatever the source is, and that `output` does not show."""
    written: str = ""
    """The translation in the manner of the text, as in capitals; `output` is what the tokens spell."""

    def select(
        self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None
    ) -> tuple[AttentionMap, ...]:
        """Return the maps of one attention, in order of layer and head, both counted from 0; None is every one.

        Raises `UsageError`, which counts from 1 and lists the choices.
        """
        require_known_map(map(map_key, self.maps), stack, kind, layer, head)
        selected = [
            attention_map
            for attention_map in self.maps
            if (attention_map.stack, attention_map.kind) == (stack, kind)
            and layer in (None, attention_map.layer)
            and head in (None, attention_map.head)
        ]
        return tuple(
            sorted(
                selected,
                key=lambda attention_map: (
                    attention_map.layer,
                    -1 if attention_map.head is None else attention_map.head,
                ),
            )
        )


def map_key(attention_map: AttentionMap) -> MapKey:
    """Return the key of a map."""
    return attention_map.stack, attention_map.kind, attention_map.layer, attention_map.head


def axes_of(stack: Stack, kind: Kind, source: Side, output: Side) -> tuple[Side, Side]:
    """Return what stands at the query axis and at the key axis of a map, of source and output."""
    return source if stack == "encoder" else output, output if (stack, kind) == ("decoder", "self") else source


def with_written_rows(attention_map: AttentionMap) -> AttentionMap:
    """Return the map with the rows of cross-attention labelled by the tokens that they wrote.

    Row t, fed token t, wrote token t + 1, and the last row wrote the end mark. Any other map comes back as it is.
    """
    if attention_map.kind != "cross" or attention_map.query_tokens[:1] != (BEGIN,):
        return attention_map
    return replace(attention_map, query_tokens=(*attention_map.query_tokens[1:], END))


def attention_name(stack: str, kind: str) -> str:
    """Return the name in a sentence: "encoder self-attention", "decoder self-attention", "cross-attention"."""
    return msg("cross-attention") if kind == "cross" else msg("{stack} {kind}-attention", msg(stack), kind)


def mean_of_heads(maps: Sequence[AttentionMap]) -> AttentionMap:
    """Return the mean of maps with the same tokens, as one map of the layer of the first.

    Raises `ValueError` without maps.
    """
    if not maps:
        raise ValueError("there is no attention map to take the mean of")
    first = maps[0]
    weights = np.mean([attention_map.weights for attention_map in maps], axis=0)
    return AttentionMap(weights, first.query_tokens, first.key_tokens, first.stack, first.layer, None, first.kind)


def require_known_map(keys: Iterable[MapKey], stack: Stack, kind: Kind, layer: int | None, head: int | None) -> None:
    """Raise `UsageError`, listing the choices, unless one of `keys` fits; None fits every one."""
    there = list(keys)
    name = attention_name(stack, kind)
    matching = [key for key in there if key[:2] == (stack, kind)]
    if not matching:
        known = dict.fromkeys(attention_name(*key[:2]) for key in there)
        raise UsageError("there is no {name} here; choose from {known}").fill(
            name, joined(", ", known) if known else msg("nothing: no map was recorded")
        )
    heads = {key[3] for key in matching if key[3] is not None}
    for what, number, numbers in (("layer", layer, {key[2] for key in matching}), ("head", head, heads)):
        if number is not None and number not in numbers:
            raise UsageError("there is no {axis} {number} in the {name}: choose from {known}").fill(
                msg(what), number + 1, name, _listed(numbers)
            )


def _listed(numbers: Iterable[int]) -> str:
    listed = [number + 1 for number in sorted(numbers)]
    if len(listed) > 2 and listed[-1] - listed[0] + 1 == len(listed):
        return msg("{first} to {last}", listed[0], listed[-1])
    return ", ".join(map(str, listed)) or msg("none: only the mean of heads is here")
