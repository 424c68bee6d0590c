"""Choose the cross-attention head that is nearest to a word alignment, and measure how near it is.

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
    """Hold how far one cross-attention head agrees with the tokens that the output depends on."""

    occlusion: float
    """Share of written tokens whose most attended source token is the one whose occlusion costs most."""
    on_needed: float
    """Share of its attention on that token."""
    occlusion_correlation: float
    """Mean rank correlation of attention with occlusion; NaN where it is not defined."""
    gradient_correlation: float
    """Mean rank correlation of attention with gradient x input."""
    scores: AlignmentScores | None
    """Scores against gold alignments, where there are some."""


@dataclass(frozen=True, slots=True)
class WordNumbers:
    """Map tokens to words: S numbers for the source, T for the written target, both without special tokens."""

    source: tuple[int, ...]
    target: tuple[int, ...]


class Agreements:
    """Collect the cross-attention of a sample, sentence by sentence, with what each output depends on."""

    def __init__(self, gold: Sequence[GoldAlignment] | None = None) -> None:
        self._gold = gold
        self._hits: dict[HeadName, list[Array]] = {}
        self._correlations: dict[HeadName, list[tuple[float, float]]] = {}
        self._links: dict[HeadName, list[set[Link]]] = {}

    def add(self, name: MapName, weights: Array, occluded: Array, gradient: Array, words: WordNumbers) -> None:
        """Add one attention layer (H, T, S) of one sentence; `occluded` and `gradient` are (T, S).

        Sentences come in the order of gold.
        """
        needed = most_attended(occluded, len(words.source))
        for number, head_weights in enumerate(weights):
            head = HeadName(*name, number)
            on_needed = head_weights[np.arange(len(needed)), needed]
            attended = most_attended(head_weights, len(words.source))
            self._hits.setdefault(head, []).append(np.stack([attended == needed, on_needed]))
            both = mean_rank_correlation(head_weights, occluded), mean_rank_correlation(head_weights, gradient)
            self._correlations.setdefault(head, []).append(both)
            self._links.setdefault(head, []).append(word_links(head_weights, words))

    def results(self) -> dict[HeadName, Agreement]:
        """Return the agreement of every head that was added."""
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


def most_attended(weights: Array, source_tokens: int) -> NDArray[np.int64]:
    """Return the most attended of the first `source_tokens` source tokens for each written token: (T, S) -> (T-1,).

    The row that wrote the end mark is left out; of equals the first counts.
    """
    indices: NDArray[np.int64] = weights[:-1, :source_tokens].argmax(axis=1)
    return indices


def word_links(weights: Array, words: WordNumbers) -> set[Link]:
    """Return links between words: two are linked if a token of one attends most to a token of the other."""
    attended = most_attended(weights, len(words.source)).tolist()
    return {(words.source[key], words.target[row]) for row, key in enumerate(attended)}


def choose_alignment_head(agreements: Mapping[HeadName, Agreement]) -> HeadName:
    """Return the head of lowest AER where gold is known, else of greatest agreement with occlusion.

    Of equals the one with more attention on the needed tokens counts, then the first. Raises `ValueError` without
    cross-attention heads.
    """

    def rank(head: HeadName) -> tuple[float, float, float]:
        agreement = agreements[head]
        return (0.0 if agreement.scores is None else agreement.scores.error), -agreement.occlusion, -agreement.on_needed

    return min(agreements, key=rank)
