"""Show which word each word attends to most, head by head, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.joined_words import join_words
from dikkat.explain.sentence_maps import SentenceMaps, attention_name, with_written_rows
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg


def peak(attention_map: AttentionMap, row: int) -> tuple[str, float]:
    """Return the token that a row of a map attends to most, the first of equals, and its share of the row."""
    index = int(attention_map.weights[row].argmax())
    return attention_map.key_tokens[index], float(attention_map.weights[row, index])


def peak_lines(sentence: SentenceMaps) -> list[str]:
    """Return a table for each attention and layer: a line for each word, a column for each head.

    A cell holds the most attended word and its share.

    A word of cross-attention is one that was written.
    """
    words = join_words(replace(sentence, maps=tuple(map(with_written_rows, sentence.maps))))
    lines: list[str] = []
    for (stack, kind, layer), group in groupby(
        words.maps, key=lambda attention_map: (attention_map.stack, attention_map.kind, attention_map.layer)
    ):
        heads = list(group)
        lines += [""] if lines else []
        lines.append(localized(msg("{attention_name}, layer {layer}").fill(attention_name(stack, kind), layer + 1)))
        lines += _columns(list(_rows(heads)))
    return lines


def _rows(heads: Sequence[AttentionMap]) -> Iterator[list[str]]:
    yield [
        "",
        *(
            localized(
                msg("mean of heads") if attention_map.head is None else msg("head {head}").fill(attention_map.head + 1)
            )
            for attention_map in heads
        ),
    ]
    for row, word in enumerate(heads[0].query_tokens):
        peaks = (peak(attention_map, row) for attention_map in heads)
        yield [word, *(f"{looked_at} {share:.2f}" for looked_at, share in peaks)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
