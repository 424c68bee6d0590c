"""Join subwords to the words that the user wrote: columns are summed, rows averaged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

import numpy as np
from jaxtyping import Bool

from dikkat.explain.attention_map import AttentionMap, SentenceMaps, attention_name, axes_of, with_written_rows
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import localized, translated
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.labels import bytes_of

_SPACE = "▁"
_ESCAPED = re.compile(r"\\([ntr0])")
_CONTROL = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0"}


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Hold the words that T tokens spell; a special token is a word of its own, under its own name."""

    names: tuple[str, ...]
    members: Bool[np.ndarray, "W T"]
    """Which tokens each word is made of; every token is in one word."""

    @classmethod
    def of(cls, tokens: Sequence[str], text: str, *, spaced: bool) -> Words:
        """Return the words of `tokens`, spelled as in `text`.

        `spaced` tokens tell by a "▁" where a word starts; without it each is a word (a vocabulary of words).
        """
        names: list[str] = []
        numbers: list[int] = []
        for special, group in groupby(tokens, SPECIAL_TOKENS.__contains__):
            run = list(group)
            words, word_indices = _spell(run) if spaced and not special else (run, range(len(run)))
            numbers += [len(names) + word_index for word_index in word_indices]
            names += words
        if spaced:
            names = _as_written(names, text.split())
        return cls(tuple(names), np.arange(len(names))[:, None] == np.array(numbers, dtype=np.int64))


def has_spaces(tokens: Sequence[str]) -> bool:
    """Return whether tokens mark where a word starts, as the first one of a text does with subwords."""
    return next((token for token in tokens if token not in SPECIAL_TOKENS), "").startswith(_SPACE)


def join_words(sentence: SentenceMaps) -> SentenceMaps:
    """Return the same maps between words; every row still sums to 1.

    The rows of a map whose queries are named by what they wrote are joined to the words that were written.
    """
    if sentence.source_tokens:
        spaced, fed = has_spaces(sentence.source_tokens), sentence.output
    else:
        # a prompt may begin without a space, which only its other words tell; that of a character is itself
        fed = sentence.source
        spaced = len(fed.split()) < 2 or any(token.startswith((_SPACE, " ")) for token in sentence.output_tokens)
    reads = Words.of(sentence.source_tokens, sentence.source, spaced=spaced)
    writes = Words.of(sentence.output_tokens, fed, spaced=spaced)

    def joined(attention_map: AttentionMap) -> AttentionMap:
        queries, keys = axes_of(attention_map.stack, attention_map.kind, reads, writes)
        if attention_map.query_tokens not in (sentence.source_tokens, sentence.output_tokens):
            queries = Words.of(attention_map.query_tokens, fed, spaced=spaced)
        return join_map(attention_map, queries, keys)

    maps = tuple(map(joined, sentence.maps))
    return replace(sentence, source_tokens=reads.names, output_tokens=writes.names, maps=maps)


def join_map(attention_map: AttentionMap, queries: Words, keys: Words) -> AttentionMap:
    """Return one map between words: (T, S) -> (words of T, words of S)."""
    rows = queries.members / queries.members.sum(axis=1, keepdims=True)
    weights = (rows @ attention_map.weights @ keys.members.T).astype(attention_map.weights.dtype)
    return replace(attention_map, weights=weights, query_tokens=queries.names, key_tokens=keys.names)


def _spell(labels: Sequence[str]) -> tuple[list[str], list[int]]:
    """The words between the white space of `labels`, and the number of each label's word: a space is of the next."""
    raw = [_bytes(label) for label in labels]
    # a character may be spread over labels; whatever is not UTF-8 keeps its place too
    text = b"".join(raw).decode("utf-8", "surrogateescape")
    word_of_byte: list[int] = []
    words = 0
    for before, character in zip(" " + text, text, strict=False):
        blank = character.isspace()
        words += before.isspace() and not blank
        word_of_byte += [words if blank else words - 1] * len(character.encode("utf-8", "surrogateescape"))
    starts = accumulate((len(part) for part in raw[:-1]), initial=0)
    # the last spaces have no next word; a word that begins inside a label belongs to the one before
    numbers = [min(word_of_byte[start], words - 1) for start in starts]
    spelled = [
        b"".join(part for _, part in group).decode("utf-8", "replace")
        for _, group in groupby(zip(numbers, raw, strict=True), key=itemgetter(0))
    ]
    word_indices = accumulate((after > before for before, after in pairwise(numbers)), initial=0)
    return [" ".join(part.split()) or _SPACE for part in spelled], list(word_indices)


def _bytes(label: str) -> bytes:
    """What a tokenizer's `labels` stand for. It never joins a typed backslash with the letter after it."""
    parts = _ESCAPED.split(label.replace(_SPACE, " "))
    # text, control letter, text, …
    return b"".join(bytes_of(part) if index % 2 == 0 else _CONTROL[part] for index, part in enumerate(parts))


def _as_written(names: list[str], written: list[str]) -> list[str]:
    """Lower-casing and composed accents are the tokenizer's, not the user's."""
    plain = [index for index, name in enumerate(names) if name not in SPECIAL_TOKENS]
    if len(plain) == len(written):
        for index, word in zip(plain, written, strict=True):
            names[index] = word
    return names


# Show which word each word attends to most, head by head, as lines for a terminal.


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
        lines.append(translated("{attention_name}, layer {layer}", attention_name(stack, kind), layer + 1))
        lines += _columns(list(_rows(heads)))
    return lines


def _rows(heads: Sequence[AttentionMap]) -> Iterator[list[str]]:
    yield [
        "",
        *(
            localized(
                msg("mean of heads") if attention_map.head is None else msg("head {head}", attention_map.head + 1)
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
