"""Join subwords to the words that the user wrote: columns are summed, rows averaged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

import numpy as np
from jaxtyping import Bool

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.sentence_maps import SentenceMaps, axes_of
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
    # a character may be spread over labels; whatever is no UTF-8 keeps its place too
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
