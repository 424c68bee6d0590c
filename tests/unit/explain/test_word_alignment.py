"""Word alignments from cross-attention, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap, SentenceMaps, as_pharaoh, word_links
from dikkat_runtime.errors import UsageError

READS = ("▁red", "▁dre", "ss", "<eos>")
WRITES = ("<bos>", "▁Kl", "eid", "▁rot")


def cross(weights: list[list[float]], writes: tuple[str, ...] = WRITES, head: int = 0) -> AttentionMap:
    return AttentionMap(np.array(weights, dtype=np.float32), writes, READS, "decoder", 0, head, "cross")


def found(*maps: AttentionMap, output: str = "Kleid rot", writes: tuple[str, ...] = WRITES) -> SentenceMaps:
    return SentenceMaps("red dress", output, READS, writes, maps)


WEIGHTS = [
    [0.4, 0.3, 0.3, 0.0],  # fed <bos>, writes Kl: dress is seen most, but in two pieces
    [0.5, 0.2, 0.2, 0.1],  # writes eid
    [0.3, 0.1, 0.1, 0.5],  # writes rot: the end mark is no word, so red
    [0.0, 0.0, 0.9, 0.1],  # writes the end mark
]


def test_each_target_word_is_linked_to_the_source_word_it_saw_most() -> None:
    # Kleid: mean of rows 1 and 2: red 0.45, dress (0.6 + 0.4) / 2 = 0.5
    assert word_links(found(cross(WEIGHTS))) == ((0, 1), (1, 0))
    assert as_pharaoh(word_links(found(cross(WEIGHTS)))) == "0-1 1-0"


def test_the_heads_are_averaged_first() -> None:
    other = [[0.9, 0.0, 0.0, 0.1]] * 4
    # Kleid: red (0.45 + 0.9) / 2 over dress (0.5 + 0) / 2
    assert word_links(found(cross(WEIGHTS), cross(other, head=1))) == ((0, 0), (0, 1))


def test_of_equal_weights_the_first_word_counts() -> None:
    assert word_links(found(cross([[0.4, 0.2, 0.2, 0.2]] * 4))) == ((0, 0), (0, 1))


def test_a_token_that_is_forced_and_not_shown_is_no_word() -> None:
    writes, looks_elsewhere = ("<bos>", "__fr__", *WRITES[1:]), [0.9, 0.0, 0.0, 0.1]
    forced = replace(found(cross([looks_elsewhere, *WEIGHTS], writes), writes=writes), forced=1)
    assert as_pharaoh(word_links(forced)) == "0-1 1-0"


def test_nothing_written_nothing_linked() -> None:
    empty = found(cross([[0.25] * 4], ("<bos>",)), output="", writes=("<bos>",))
    assert as_pharaoh(word_links(empty)) == ""


def test_without_cross_attention_there_is_no_alignment() -> None:
    own = AttentionMap(np.eye(4), READS, READS, "encoder", 0, 0, "self")
    with pytest.raises(UsageError, match="there is no cross-attention here"):
        word_links(found(own))
