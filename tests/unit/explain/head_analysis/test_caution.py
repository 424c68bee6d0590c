"""Maps that may be read as an alignment, and maps that may not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap, SentenceMaps
from dikkat.explain.head_analysis.alignment_head import caution
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import localized

READS = ("▁dogs", "▁see", "▁cats", ".", "<eos>")
WRITES = ("<bos>", "▁köpekler", "▁kedileri", "▁görür", ".")
SHARP = np.eye(5) * 0.8 + 0.04


def maps(*heads: np.ndarray, layer: int = 0) -> SentenceMaps:
    """Cross-attention heads of one layer."""
    result = tuple(
        AttentionMap(weights.astype(np.float32), WRITES, READS, "decoder", layer, head, "cross")
        for head, weights in enumerate(heads)
    )
    return SentenceMaps("dogs see cats.", "köpekler kedileri görür.", READS, WRITES, result)


def test_a_sharp_map_on_words_needs_no_caution() -> None:
    assert caution(maps(SHARP)) is None
    assert caution(replace(maps(SHARP), occluded=np.eye(5) + 0.1 * SHARP)) is None


def test_attention_on_what_is_no_word() -> None:
    weights = np.tile([0.1, 0.1, 0.1, 0.1, 0.6], (5, 1))
    assert caution(maps(weights)) == (
        "Do not read this map as an alignment: 70% of its attention lies on marks and punctuation; "
        "a row is spread over 3 of 5 tokens."
    )
    # rows that write punctuation and the end mark rightly look there
    weights = SHARP.copy()
    weights[3:] = [0.05, 0.05, 0.05, 0.05, 0.8]
    assert caution(maps(weights)) is None


def test_attention_on_everything() -> None:
    assert caution(maps(np.full((5, 5), 0.2))) == (
        "Do not read this map as an alignment: a row is spread over 5 of 5 tokens."
    )


def test_attention_in_another_order_than_influence() -> None:
    """Sharing the first of five alone gives 3 / 6."""
    occluded = np.array([np.roll([5.0, 1.0, 2.0, 3.0, 4.0], row) for row in range(5)])
    weights = np.array([np.roll([0.9, 0.06, 0.02, 0.015, 0.005], row) for row in range(5)])
    # with ranks from the top 1 2 3 4 5 against 1 5 4 3 2: 1 - 6 · 20 / 120
    assert caution(replace(maps(weights), occluded=occluded)) == (
        "Do not read this map as an alignment: the order of its weights hardly follows what the output depends on "
        "(rank correlation with occlusion 0.00; sharing the first token alone gives 0.50)."
    )


def test_attention_on_other_tokens_than_those_needed() -> None:
    """In three of the four rows that write a token; the fifth writes the end mark."""
    weights = 0.9 * np.eye(5)[[0, 0, 1, 2, 4]] + 0.02
    # of two rows with one large entry each, at different places of five: -1/4; at the same: 1
    assert caution(maps(weights)) is None
    assert caution(replace(maps(weights), occluded=np.eye(5))) == (
        "Do not read this map as an alignment: for 75% of the written tokens it looks most at another token than the "
        "one that is needed most (by occlusion); the order of its weights hardly follows what the output depends on "
        "(rank correlation with occlusion 0.25; sharing the first token alone gives 0.50)."
    )


def test_of_one_head_or_of_the_mean_of_all() -> None:
    result = maps(SHARP, np.full((5, 5), 0.2))
    assert caution(result, 0, 0) is None
    assert caution(result, 0, 1) is not None
    # the mean of both is spread over 3.0 of 5
    assert caution(result) is not None
    with pytest.raises(UsageError, match="there is no head 3"):
        caution(result, 0, 2)


def test_turkish() -> None:
    weights = np.tile([0.01, 0.02, 0.03, 0.04, 0.9], (5, 1))
    assert localized(caution(maps(weights)) or "", "tr") == (
        "Bu haritayı sözcük hizalaması olarak okumayın: dikkatin işaret ve noktalama belirteçlerine düşen payı %94."
    )


def test_where_there_is_nothing_to_misread() -> None:
    result = maps(np.full((5, 5), 0.2))
    assert caution(replace(result, maps=())) is None
    first = replace(result.maps[0], weights=result.maps[0].weights[:1], query_tokens=WRITES[:1])
    assert caution(replace(result, output="", output_tokens=WRITES[:1], maps=(first,))) is None
