"""Which word each word looks at most, head by head, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.joined_words import join_words
from dikkat.explain.sentence_maps import SentenceMaps, attention_name, with_written_rows


def peak(each: AttentionMap, row: int) -> tuple[str, float]:
    """The token that a row of a map looks at most, the first of equals, and its share of the row."""
    place = int(each.weights[row].argmax())
    return each.key_tokens[place], float(each.weights[row, place])


def peak_lines(found: SentenceMaps) -> list[str]:
    """A table for each attention and layer: a line for each word, a column for each head, in it the word it looks at
    most and the share of that word.

    A word of cross-attention is one that was written.
    """
    words = join_words(replace(found, maps=tuple(map(with_written_rows, found.maps))))
    lines: list[str] = []
    for (stack, kind, layer), group in groupby(words.maps, key=lambda each: (each.stack, each.kind, each.layer)):
        heads = list(group)
        lines += [""] if lines else []
        lines.append(f"{attention_name(stack, kind)}, layer {layer + 1}")
        lines += _columns(list(_rows(heads)))
    return lines


def _rows(heads: Sequence[AttentionMap]) -> Iterator[list[str]]:
    yield ["", *("mean of heads" if each.head is None else f"head {each.head + 1}" for each in heads)]
    for row, word in enumerate(heads[0].query_tokens):
        peaks = (peak(each, row) for each in heads)
        yield [word, *(f"{looked_at} {share:.2f}" for looked_at, share in peaks)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
