"""The table of the words that are looked at most."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap, SentenceMaps, peak, peak_lines

READS, WRITES = ("▁it", "▁is", "▁ti", "red", "<eos>"), ("<bos>", "▁il", "▁dort")


def maps() -> SentenceMaps:
    reading = np.full((5, 5), 0.1, np.float32)
    reading[0] = (0.05, 0.1, 0.3, 0.35, 0.2)
    crossing = np.eye(3, 5, dtype=np.float32)
    return SentenceMaps(
        "it is tired", "il dort", READS, WRITES,
        (AttentionMap(reading, READS, READS, "encoder", 0, 1, "self"),
         AttentionMap(crossing, WRITES, READS, "decoder", 1, 0, "cross")),
    )  # fmt: skip


def test_a_word_is_the_sum_of_its_pieces_and_a_row_of_cross_attention_is_named_by_what_it_wrote() -> None:
    assert peak_lines(maps()) == [
        "encoder self-attention, layer 1",
        "       head 2",
        "it     tired 0.65",
        "is     tired 0.20",
        "tired  tired 0.20",
        "<eos>  tired 0.20",
        "",
        "cross-attention, layer 2",
        "       head 1",
        "il     it 1.00",
        "dort   is 1.00",
        "<eos>  tired 1.00",
    ]


def test_of_equals_the_first_is_the_peak() -> None:
    label, weight = peak(maps().maps[0], 1)
    assert label == "▁it"
    assert weight == pytest.approx(0.1)


@pytest.mark.seed("D13")
def test_every_head_has_a_column_of_its_own() -> None:
    two = (np.eye(3, dtype=np.float32), np.fliplr(np.eye(3, dtype=np.float32)))
    tokens = ("▁it", "▁was", "▁tired")
    heads = tuple(AttentionMap(item, tokens, tokens, "encoder", 1, head, "self") for head, item in enumerate(two))
    result = SentenceMaps("it was tired", "", tokens, (), heads)
    assert peak_lines(result)[1:] == [
        "       head 1      head 2",
        "it     it 1.00     tired 1.00",
        "was    was 1.00    was 1.00",
        "tired  tired 1.00  it 1.00",
    ]
