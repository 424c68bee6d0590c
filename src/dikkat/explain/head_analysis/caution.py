"""Warn when a cross-attention map should not be read as a word alignment.

Each limit follows from what an alignment is, not from taste:
  - more than half of the attention lies on tokens that are no word: on average a row then says nothing of words;
  - a row is spread over exp(entropy) tokens; over more than half of them is closer to everything than to a choice;
  - for more than half of the written tokens the most attended token is not the one whose occlusion costs most: links
    read off the map are then mostly not those that the output depends on;
  - the rank correlation with occlusion is below what sharing only the first token gives (`rank_correlation.py`):
    the weights then follow what the output depends on less than a map that is right in its darkest cell alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.head_analysis.alignment_head import most_attended
from dikkat.explain.head_analysis.entropy import entropy
from dikkat.explain.head_analysis.rank_correlation import correlation_by_first_alone, mean_rank_correlation
from dikkat.explain.head_analysis.token_kinds import is_punctuation, is_special
from dikkat.explain.sentence_maps import SentenceMaps, mean_of_heads
from dikkat_runtime.messages import Message, joined, msg

Array = NDArray[np.float64]

MAX_SPECIAL = 0.5
MAX_SPREAD = 0.5
MAX_ELSEWHERE = 0.5


def caution(
    maps: SentenceMaps,
    layer: int | None = None,
    head: int | None = None,
) -> Message | None:
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
        reasons.append(msg("{share} of its attention lies on marks and punctuation").fill(percent(share_of_special)))
    effective = float(np.exp(entropy(weights)).mean())
    if effective > MAX_SPREAD * keys:
        reasons.append(msg("a row is spread over {effective:.0f} of {keys} tokens").fill(effective, keys))
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
    return msg("Do not read this map as an alignment: {reasons}.").fill(joined("; ", reasons)) if reasons else None


def _special_share(shown: AttentionMap, weights: Array) -> float:
    """Share of attention on marks and punctuation, in the rows that write a word; 0 without such rows."""
    # row t writes token t + 1; the last one writes the end mark
    rows = [not is_punctuation(token) for token in shown.query_tokens[1:]]
    columns = [is_special(token) or is_punctuation(token) for token in shown.key_tokens]
    return float(weights[:-1][rows][:, columns].sum(axis=1).mean()) if any(rows) else 0.0


def percent(share: float, decimals: int = 0) -> Message:
    """Return 0.5 as 50%, with no decimal or one."""
    return (msg("{share:.1f}%" if decimals else "{share:.0f}%")).fill(100.0 * share)
