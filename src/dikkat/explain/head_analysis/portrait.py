"""What one head does, on average: how it spreads its attention, how far, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.head_analysis.ablation import HeadName
from dikkat.explain.head_analysis.entropy import entropy
from dikkat.explain.head_analysis.wordless import is_mark, is_punctuation
from dikkat.nn.recorder import MapName

Array = NDArray[np.float64]

Place = Literal["marks", "punctuation", "before", "same", "after", "first", "elsewhere"]
"""Where attention lies, the first that applies; "before", "same" and "after" by position: row t of a cross-attention
writes target token t, so "same" is source token t."""

NOTICEABLE = 0.01
"""Share of attention by which a place must exceed what evenly spread attention would give it."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """Means over all query tokens of a sample."""

    entropy: float
    """In nats."""
    entropy_share: float
    """Of the greatest entropy that these queries could have; 1 is no choice at all."""
    distance: float
    """Tokens from the query's position to what it looks at, weighted by attention."""
    place: Place | None
    """Where more attention lies than evenly spread attention would put there, by the widest margin; None if nowhere."""
    place_share: float
    """Share of the attention that lies there; 0 if nowhere."""


class Portraits:
    """Collects the maps of a sample, sentence by sentence, and keeps only sums."""

    def __init__(self) -> None:
        self._sums: dict[MapName, Array] = {}

    def add(
        self,
        name: MapName,
        weights: Array,
        query_tokens: Sequence[str],
        key_tokens: Sequence[str],
        seen: NDArray[np.bool_] | None = None,
    ) -> None:
        """One attention (H, T, S) of one sentence, with the labels of its T queries and S keys.

        `seen` (T, S) is True at what a query may attend to; by default everything, or in the self-attention of a
        decoder what stands before it.
        """
        queries, keys = weights.shape[1:]
        distances = np.abs(np.arange(keys) - np.arange(queries)[:, None])
        is_causal = name.stack == "decoder" and name.kind == "self"
        even = np.tri(queries, keys) if is_causal else np.ones((queries, keys))
        even = even if seen is None else seen.astype(np.float64)
        even /= even.sum(axis=1, keepdims=True)
        places = [_places(queries, key_tokens) == number for number in range(len(get_args(Place)))]
        columns = [
            np.full(len(weights), float(queries)),
            entropy(weights).sum(axis=1),
            np.full(len(weights), entropy(even).sum()),
            (weights * distances).sum(axis=(1, 2)),
            *((weights * place).sum(axis=(1, 2)) for place in places),
            *(np.full(len(weights), (even * place).sum()) for place in places),
        ]
        # (H, measures)
        self._sums[name] = self._sums.get(name, 0.0) + np.stack(columns, axis=1)

    def of(self, head: HeadName) -> Portrait:
        """The portrait of one head. Raises `KeyError` for one that no map was added of."""
        name = MapName(head.stack, head.layer, head.kind)
        queries, spread, greatest, distance, *places = self._sums[name][head.head].tolist()
        shares, even = np.array(places).reshape(2, -1) / queries
        most = int(np.argmax(shares - even))
        is_noticed = shares[most] - even[most] >= NOTICEABLE
        return Portrait(
            entropy=spread / queries,
            entropy_share=spread / greatest if greatest else 0.0,
            distance=distance / queries,
            place=get_args(Place)[most] if is_noticed else None,
            place_share=float(shares[most]) if is_noticed else 0.0,
        )


def _places(queries: int, key_tokens: Sequence[str]) -> NDArray[np.int64]:
    """(T, S): the number of the `Place` where each key stands for each query."""
    offsets = np.arange(len(key_tokens)) - np.arange(queries)[:, None]
    by_token = [np.array([test(token) for token in key_tokens]) for test in (is_mark, is_punctuation)]
    by_token.append(np.arange(len(key_tokens)) == 0)
    marks, signs, first = (np.broadcast_to(each, offsets.shape) for each in by_token)
    conditions = [marks, signs, *(offsets == n for n in (-1, 0, 1)), first]
    return np.select(conditions, range(6), default=6)
