"""Summarize one head: how it spreads its attention, how far, and on what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import BEGIN, END
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.nn.recorder import MapName

Array = NDArray[np.float64]


def entropy(weights: Array) -> Array:
    """Compute -Σ w ln w of every row, (..., S) -> (...), in nats: 0 for one token, ln S for S equal ones."""
    positive = weights > 0.0
    nats: Array = -np.sum(weights * np.log(weights, out=np.zeros_like(weights), where=positive), axis=-1)
    return nats


# Recognise tokens that are not words, where attention often rests (Clark et al. 2019, section 3.2).


def is_special(token: str) -> bool:
    """Return whether a label is that of the begin or the end token."""
    return token in (BEGIN, END)


def is_punctuation(token: str) -> bool:
    """Return whether a label has signs, but no letter and no digit; "▁" is a space."""
    signs = token.replace("▁", " ").strip()
    return bool(signs) and not any(sign.isalnum() for sign in signs)


AttentionTarget = Literal["marks", "punctuation", "before", "same", "after", "first", "elsewhere"]
"""Where attention lies, the first that applies; "before", "same" and "after" by position: row t of a cross-attention
writes target token t, so "same" is source token t."""

NOTICEABLE = 0.01
"""Share of attention by which a target must exceed even attention to be named."""


@dataclass(frozen=True, slots=True)
class HeadStats:
    """Hold means over all query tokens of a sample."""

    entropy: float
    """In nats."""
    entropy_share: float
    """Share of the greatest entropy that these queries could have; 1 is no choice at all."""
    distance: float
    """Tokens from the query's position to the attended one, weighted by attention."""
    target: AttentionTarget | None
    """Target with the widest margin over even attention; None if there is none."""
    target_share: float
    """Share of the attention on that target; 0 if there is none."""


class HeadStatsCollector:
    """Collect the maps of a sample, sentence by sentence, keeping only sums."""

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
        """Add one attention layer (H, T, S) of one sentence, with the labels of its T queries and S keys.

        `seen` (T, S) is True where a query may attend; by default everywhere, or in the self-attention of a decoder up
        to the query.
        """
        queries, keys = weights.shape[1:]
        is_causal = name.stack == "decoder" and name.kind == "self"
        even = np.tri(queries, keys) if is_causal else np.ones((queries, keys))
        even = even if seen is None else seen.astype(np.float64)
        even /= even.sum(axis=1, keepdims=True)
        targets = [_target_numbers(queries, key_tokens) == number for number in range(len(get_args(AttentionTarget)))]
        columns = [
            np.full(len(weights), float(queries)),
            entropy(weights).sum(axis=1),
            np.full(len(weights), entropy(even).sum()),
            (weights * np.abs(np.arange(keys) - np.arange(queries)[:, None])).sum(axis=(1, 2)),
            *((weights * target).sum(axis=(1, 2)) for target in targets),
            *(np.full(len(weights), (even * target).sum()) for target in targets),
        ]
        # (H, measures)
        self._sums[name] = self._sums.get(name, 0.0) + np.stack(columns, axis=1)

    def of(self, head: HeadName) -> HeadStats:
        """Return the statistics of one head. Raises `KeyError` for a head that no map was added of."""
        name = MapName(head.stack, head.layer, head.kind)
        queries, spread, greatest, distance, *targets = self._sums[name][head.head].tolist()
        shares, even = np.array(targets).reshape(2, -1) / queries
        most = int(np.argmax(shares - even))
        is_noticed = shares[most] - even[most] >= NOTICEABLE
        return HeadStats(
            entropy=spread / queries,
            entropy_share=spread / greatest if greatest else 0.0,
            distance=distance / queries,
            target=get_args(AttentionTarget)[most] if is_noticed else None,
            target_share=float(shares[most]) if is_noticed else 0.0,
        )


def _target_numbers(queries: int, key_tokens: Sequence[str]) -> NDArray[np.int64]:
    """(T, S): the number of the `AttentionTarget` where each key stands for each query."""
    offsets = np.arange(len(key_tokens)) - np.arange(queries)[:, None]
    by_token = [np.array([test(token) for token in key_tokens]) for test in (is_special, is_punctuation)]
    by_token.append(np.arange(len(key_tokens)) == 0)
    special, signs, first = (np.broadcast_to(condition, offsets.shape) for condition in by_token)
    return np.select([special, signs, *(offsets == n for n in (-1, 0, 1)), first], range(6), default=6)
