"""Choose the cross-attention head that is nearest to a word alignment, and measure how near it is.

Heads are judged by what the whole model does: for each written token, is the source token that the head looks at most
also the one whose occlusion costs most? Only gold alignments, where there are some, are a better judge.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.evaluation.alignment_error import AlignmentScores, GoldAlignment, Link, alignment_error
from dikkat.explain.attention_map import AttentionMap, SentenceMaps, mean_of_heads
from dikkat.explain.head_analysis.head_stats import entropy, is_punctuation, is_special
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.nn.recorder import MapName
from dikkat_runtime.errors import Message, joined, msg

Array = NDArray[np.float64]


def rank_correlation(first: Array, second: Array) -> float:
    """Return Pearson's correlation of the ranks, from -1 to 1; ties share their mean rank (Spearman 1904).

    NaN where it is not defined: fewer than two values, or all of one side equal. Raises `ValueError` for two shapes.
    """
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"ranks need two vectors of one length, not shapes {first.shape} and {second.shape}")
    if len(first) < 2:
        return math.nan
    # not at the top: most commands never need it
    from scipy.stats import rankdata

    ours, theirs = (ranks - ranks.mean() for ranks in map(rankdata, (first, second)))
    scale = math.sqrt((ours @ ours) * (theirs @ theirs))
    return float(ours @ theirs / scale) if scale else math.nan


def mean_rank_correlation(weights: Array, influence: Array) -> float:
    """Return the mean rank correlation of the rows of attention (T, S) with the size of `influence` (T, S).

    The size, since a token that speaks against a word is as much of a reason to look at it. Rows where the correlation
    is not defined do not count; NaN if none is left.
    """
    rows = [rank_correlation(ours, theirs) for ours, theirs in zip(weights, np.abs(influence), strict=True)]
    defined = [row for row in rows if not math.isnan(row)]
    return float(np.mean(defined)) if defined else math.nan


def correlation_by_first_alone(length: int) -> float:
    """Return the expected rank correlation of two rankings that share their first token and are random otherwise.

    3 / (length + 1): with centred ranks, the first contributes ((n - 1) / 2)² to the product and the others, whose mean
    is -1/2 on either side, (n - 1) / 4; the sum is divided by the sum of squares, n (n² - 1) / 12.
    """
    return 3.0 / (length + 1)


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


# Warn when a cross-attention map should not be read as a word alignment.
#
# Each limit follows from what an alignment is, not from taste:
# - more than half of the attention lies on tokens that are not words: on average a row then says nothing of words;
# - a row is spread over exp(entropy) tokens; over more than half of them is closer to everything than to a choice;
# - for more than half of the written tokens the most attended token is not the one whose occlusion costs most: links
# read off the map are then mostly not those that the output depends on;
# - the rank correlation with occlusion is below what sharing only the first token gives (`rank_correlation.py`):
# the weights then follow what the output depends on less than a map that is right in its darkest cell alone.

MAX_SPECIAL = 0.5
MAX_SPREAD = 0.5
MAX_ELSEWHERE = 0.5


def caution(maps: SentenceMaps, layer: int | None = None, head: int | None = None) -> Message | None:
    """Return one line of reasons not to read the cross-attention of a sentence as an alignment, or None.

    `layer` and `head` count from 0; None is the mean of all. Where `maps` have no `occluded`, the last two limits are
    not checked. A model without cross-attention, and an empty output, give None. Raises `UsageError` for an unknown
    layer or head.
    """
    if len(maps.output_tokens) < 2 or not any(attention_map.kind == "cross" for attention_map in maps.maps):
        return None
    shown = mean_of_heads(maps.select("decoder", "cross", layer, head))
    weights, keys = shown.weights.astype(np.float64), shown.weights.shape[1]
    reasons = []
    share_of_special = _special_share(shown, weights)
    if share_of_special > MAX_SPECIAL:
        reasons.append(msg("{share} of its attention lies on marks and punctuation", percent(share_of_special)))
    effective = float(np.exp(entropy(weights)).mean())
    if effective > MAX_SPREAD * keys:
        reasons.append(msg("a row is spread over {count:.0f} of {keys} tokens", effective, keys))
    if (occluded := maps.occluded) is not None:
        source_tokens = keys - is_special(shown.key_tokens[-1])
        attended, needed = (most_attended(array, source_tokens) for array in (weights, occluded))
        elsewhere = float((attended != needed).mean())
        if elsewhere > MAX_ELSEWHERE:
            reasons.append(
                msg(
                    "for {share} of the written tokens it looks most at another token than the one that is needed most "
                    "(by occlusion)"
                ).fill(percent(elsewhere))
            )
        correlation, chance = mean_rank_correlation(weights, occluded), correlation_by_first_alone(keys)
        if not math.isnan(correlation) and correlation < chance:
            reasons.append(
                msg(
                    "the order of its weights hardly follows what the output depends on (rank correlation with "
                    "occlusion {correlation:.2f}; sharing the first token alone gives {chance:.2f})"
                ).fill(correlation, chance)
            )
    return msg("Do not read this map as an alignment: {reasons}.", joined("; ", reasons)) if reasons else None


def _special_share(shown: AttentionMap, weights: Array) -> float:
    """Share of attention on marks and punctuation, in the rows that write a word; 0 without such rows."""
    # row t writes token t + 1; the last one writes the end mark
    rows = [not is_punctuation(token) for token in shown.query_tokens[1:]]
    columns = [is_special(token) or is_punctuation(token) for token in shown.key_tokens]
    return float(weights[:-1][rows][:, columns].sum(axis=1).mean()) if any(rows) else 0.0


def percent(share: float, decimals: int = 0) -> Message:
    """Return 0.5 as 50%, with no decimal or one."""
    return (msg("{share:.1f}%" if decimals else "{share:.0f}%")).fill(100.0 * share)
