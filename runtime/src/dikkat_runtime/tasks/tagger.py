"""Mark the words of lines with their classes by any engine: names of people and places, parts of speech."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from dikkat_runtime.engine.products import softmax
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.tasks.classifier import BATCH_SIZE, BATCH_TOKENS, WINDOW, Classifier, ImportedHead
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer

OUTSIDE = "O"
"""The class of words that are not marked."""


@dataclass(frozen=True, slots=True)
class Span:
    """One word of a text, or several of one class that belong together."""

    label: str
    """Its class, without the B- or I- of a word that begins or continues a name."""
    start: int
    """Its first character, counted from 0."""
    end: int
    """The character after its last."""
    text: str
    probability: float
    """The mean over its words."""


_Word = tuple[int, int, int]
"""Index of the first token, by which a word is classed, as in training; its first character, and the one after it."""


class Tagger(ImportedHead):
    """An imported model that classes every token, with its classes and tokenizer."""

    kind = "tagger"

    def __init__(self, reader: Classifier) -> None:
        """The `reader` holds engine, tokenizer and classes; its engine gives logits for every id."""
        super().__init__(reader)
        assert isinstance(reader.tokenizer, ForeignTokenizer)  # taggers are imported
        self._tokenizer, self._max_ids = reader.tokenizer, reader.max_tokens - reader.tokenizer.frame_size
        self._before = reader.tokenizer.framed([-1]).index(-1)

    def tag(self, texts: Iterable[str]) -> list[tuple[Span, ...]]:
        """Return the marked spans of each text, in order; a text of any length is read whole."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[tuple[Span, ...]]:
        """Mark an endless stream in order, in constant memory; at most `window` lines are read ahead."""
        reader = iter(lines)
        while texts := list(islice(reader, window)):
            encodings = self._tokenizer.encodings(texts)
            parts = [(number, start) for number, one in enumerate(encodings) for start in self._starts(len(one.ids))]
            read = [encodings[number].ids[start : start + self._max_ids] for number, start in parts]
            rows = [self._tokenizer.framed(ids) for ids in read]
            logits = [np.zeros((len(one.ids), len(self.reader.labels)), np.float32) for one in encodings]
            computed: dict[int, Array] = {}
            for batch in length_batches([len(row) for row in rows], batch_size, BATCH_TOKENS):
                computed |= zip(batch, self.engine.logits([rows[index] for index in batch]), strict=True)
            for index, (number, start) in enumerate(parts):
                # what an earlier part saw with more text after it stays as it is
                skipped, before = self._max_ids // 4 if start else 0, self._before
                end = len(read[index])
                logits[number][start + skipped : start + end] = computed[index][before + skipped : before + end]
            for text, encoding, scores in zip(texts, encodings, logits, strict=True):
                words = _words(text, encoding.word_ids, encoding.offsets)
                yield tuple(_spans(text, words, self.reader.labels, softmax(scores)))

    def _starts(self, length: int) -> list[int]:
        """Return where the parts of a text begin, each read alone, whose halves overlap; none of an empty text."""
        if length <= self._max_ids:
            return [0] if length else []
        return [*range(0, length - self._max_ids, max(1, self._max_ids // 2)), length - self._max_ids]


def _words(text: str, numbers: Sequence[Any], offsets: Sequence[tuple[int, int]]) -> list[_Word]:
    """Return the words of a text: tokens of one `numbers`, cut where white space and punctuation begin and end."""
    words: list[_Word] = []
    for index, (start, end) in enumerate(offsets):
        piece = text[start:end]
        start, end = end - len(piece.lstrip()), start + len(piece.rstrip())
        first, begun, ended = words[-1] if words else (index, 0, 0)
        is_cut = begun < ended <= start < end and not (_in_word(text[start - 1]) and _in_word(text[start]))
        if not words or is_cut or numbers[index] != numbers[index - 1]:
            words.append((index, start, max(start, end)))
        elif start < end:
            words[-1] = first, begun if begun < ended else start, max(ended, end)
    return [word for word in words if word[1] < word[2]]


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _spans(text: str, words: Sequence[_Word], labels: Sequence[str], shares: Array) -> Iterator[Span]:
    """Yield the marked spans: a word joins the one before it that has its class, unless its label begins with B-."""
    groups: list[tuple[str, list[_Word]]] = []
    best = shares.argmax(axis=1)
    for word in words:
        label = labels[best[word[0]]]
        kind = label[2:] if label[:2] in ("B-", "I-") else label
        if not groups or kind != groups[-1][0] or label.startswith("B-"):
            groups.append((kind, []))
        groups[-1][1].append(word)
    for kind, group in groups:
        if kind != OUTSIDE:
            start, end = group[0][1], group[-1][2]
            yield Span(kind, start, end, text[start:end], float(shares[[word[0] for word in group]].max(axis=1).mean()))


def written(spans: Sequence[Span]) -> str:
    """Return a line of output: of each span its label, its offsets, its probability and its text."""
    columns = (f"{span.label} {span.start}:{span.end} {span.probability:.4f} {span.text}" for span in spans)
    return "\t".join(" ".join(column.split()) for column in columns)
