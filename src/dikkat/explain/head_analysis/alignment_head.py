"""Which cross-attention head comes nearest to an alignment of words, and how near that is.

Heads are judged by what the whole model does: for each written token, is the source token that the head looks at most
also the one whose occlusion costs most? Only gold alignments, where there are some, are a better judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.evaluation.alignment_error import AlignmentScores, GoldAlignment, Link, alignment_error
from dikkat.explain.head_analysis.ablation import HeadName
from dikkat.explain.head_analysis.rank_correlation import mean_rank_correlation
from dikkat.nn.recorder import MapName

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far one cross-attention head agrees with what the output depends on."""

    occlusion: float
    """Share of written tokens whose most attended source token is the one whose occlusion costs most."""
    on_needed: float
    """Share of its attention that lies on that token."""
    occlusion_correlation: float
    """Mean rank correlation of attention with occlusion; NaN where it is not defined."""
    gradient_correlation: float
    """The same with gradient x input."""
    scores: AlignmentScores | None
    """Against gold alignments, where there are some."""


@dataclass(frozen=True, slots=True)
class WordNumbers:
    """Which word each token is a part of: S numbers for the source, T for the written target, both without marks."""

    source: tuple[int, ...]
    target: tuple[int, ...]


class Agreements:
    """Collects the cross-attention of a sample, sentence by sentence, beside what each output depends on."""

    def __init__(self, gold: Sequence[GoldAlignment] | None = None) -> None:
        self._gold = gold
        self._hits: dict[HeadName, list[Array]] = {}
        self._correlations: dict[HeadName, list[tuple[float, float]]] = {}
        self._links: dict[HeadName, list[set[Link]]] = {}

    def add(self, name: MapName, weights: Array, occluded: Array, gradient: Array, words: WordNumbers) -> None:
        """One attention (H, T, S) of one sentence; `occluded` and `gradient` (T, S); sentences in the order of gold."""
        needed = most_attended(occluded)
        for number, each in enumerate(weights):
            head = HeadName(*name, number)
            on_needed = each[np.arange(len(needed)), needed]
            self._hits.setdefault(head, []).append(np.stack([most_attended(each) == needed, on_needed]))
            both = mean_rank_correlation(each, occluded), mean_rank_correlation(each, gradient)
            self._correlations.setdefault(head, []).append(both)
            self._links.setdefault(head, []).append(word_links(each, words))

    def found(self) -> dict[HeadName, Agreement]:
        """The agreement of every head that was added."""
        return {head: self._of(head) for head in self._hits}

    def _of(self, head: HeadName) -> Agreement:
        defined = np.ma.masked_invalid(self._correlations[head]).mean(axis=0).filled(np.nan)
        # (2, written tokens of the sample) -> (2,)
        share, on_needed = np.concatenate(self._hits[head], axis=1).mean(axis=1).tolist()
        return Agreement(
            occlusion=share,
            on_needed=on_needed,
            occlusion_correlation=float(defined[0]),
            gradient_correlation=float(defined[1]),
            scores=None if self._gold is None else alignment_error(self._links[head], self._gold),
        )


def most_attended(weights: Array) -> NDArray[np.int64]:
    """(T, S) -> (T-1,): the source token of each written token, the first of equals; marks are neither."""
    places: NDArray[np.int64] = weights[:-1, :-1].argmax(axis=1)
    return places


def word_links(weights: Array, words: WordNumbers) -> set[Link]:
    """Links between words: two are linked if a token of the one is most attended by a token of the other."""
    return {(words.source[key], words.target[row]) for row, key in enumerate(most_attended(weights).tolist())}


def choose_alignment_head(found: Mapping[HeadName, Agreement]) -> HeadName:
    """The head of lowest AER where gold is known, else of greatest agreement with occlusion.

    Of equals the one whose attention lies more on what is needed, then the first. Raises `ValueError` when there is no
    cross-attention head to choose from.
    """

    def rank(head: HeadName) -> tuple[float, float, float]:
        each = found[head]
        return (0.0 if each.scores is None else each.scores.error), -each.occlusion, -each.on_needed

    return min(found, key=rank)
