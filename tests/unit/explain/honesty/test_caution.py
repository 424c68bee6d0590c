"""The line that says when a map is no alignment: each reason alone, and none."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.errors import UsageError
from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.honesty import caution
from dikkat.explain.sentence_maps import SentenceMaps

READS, WRITES = ("▁a", "▁dog", "▁runs", ".", "<eos>"), ("<bos>", "▁ein", "▁Hund", "▁läuft")


def found(weights: np.ndarray, kind: str = "cross") -> SentenceMaps:
    keys = READS if kind == "cross" else WRITES
    one = AttentionMap(weights.astype(np.float32), WRITES, keys, "decoder", 0, 0, kind)  # type: ignore[arg-type]
    return SentenceMaps("a dog runs.", "ein Hund läuft", READS, WRITES, (one,))


def rows(*places: int) -> np.ndarray:
    return 0.96 * np.eye(5)[list(places)] + 0.008


SHARP = rows(0, 1, 2, 4)


def test_a_map_that_may_be_read_has_no_line() -> None:
    assert caution(found(SHARP)) is None
    assert caution(found(SHARP), occluded=SHARP) is None


def test_attention_on_what_is_no_word() -> None:
    english, turkish = (caution(found(rows(3, 4, 4, 4)), language=language) for language in ("en", "tr"))
    assert english is not None
    assert turkish is not None
    assert english.startswith("Do not read this map as an alignment: ")
    assert english != turkish
    assert "\n" not in english + turkish


def test_attention_spread_over_everything() -> None:
    line = caution(found(np.full((4, 5), 0.2)))
    assert line is not None
    assert "5 of 5 tokens" in line


def test_attention_that_the_output_does_not_depend_on() -> None:
    opposite = 1.0 - SHARP
    assert caution(found(SHARP), occluded=opposite) is not None


def test_nothing_to_say_of_self_attention_or_nothing_written() -> None:
    assert caution(found(np.eye(4), kind="self")) is None
    one = AttentionMap(np.ones((1, 5), np.float32) / 5, ("<bos>",), READS, "decoder", 0, 0, "cross")
    assert caution(SentenceMaps("a dog runs.", "", READS, ("<bos>",), (one,))) is None


def test_a_language_that_is_not_spoken() -> None:
    with pytest.raises(UsageError):
        caution(found(SHARP), language="xx")
