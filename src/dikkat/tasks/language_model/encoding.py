"""Turn documents into ids, and draw the texts of their vocabulary, in memory that does not grow with them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from dikkat.data.documents import PIECE, Document
from dikkat_runtime.special_tokens import SpecialTokens
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, ForeignTokenizer, special_tokens_of

VOCABULARY_CHARACTERS = 1 << 28
"""Characters that a vocabulary is learned from, about; of more, so many are drawn by the seed."""
_CHARACTERS_AT_ONCE = 1 << 16
_DOCUMENTS_AT_ONCE = 1000


def vocabulary_texts(documents: Sequence[Document], seed: int) -> Iterator[str]:
    """Yield the texts that a vocabulary is learned from: all pieces, or so many of them as memory should see."""
    size = sum(document.size for document in documents)
    pieces = chain.from_iterable(document.pieces for document in documents)
    if size <= VOCABULARY_CHARACTERS:
        yield from pieces
        return
    bits = np.random.PCG64(np.random.SeedSequence([seed % 2**64, size]))
    limit = 2**64 * VOCABULARY_CHARACTERS // size
    # raw bits of the generator: numpy keeps these the same for ever
    yield from (piece for piece in pieces if bits.random_raw() < limit)


def encoded(documents: Iterable[Document], tokenizer: AnyTokenizer, kind: str) -> Iterator[Iterable[int]]:
    """Yield the ids of each document, each to be read before the next, as those of its whole text are.

    `<bos>` stands where a text begins, `<eos>` where it ends, or the marks of an imported model that has some. A
    vocabulary of the kind unigram cuts a text as a whole, which is then in memory, and so does an imported one.
    """
    marks = special_tokens_of(tokenizer)
    if isinstance(tokenizer, ForeignTokenizer):
        kind = "foreign"
    if kind in ("characters", "bytes"):
        for document in documents:
            yield _marked(
                document, chain.from_iterable(_of_characters(piece, tokenizer) for piece in document.pieces), marks
            )
        return
    for group in _groups(documents):
        if len(group) == 1 and len(group[0].pieces) > 1 and kind in ("bpe", "words"):
            (document,) = group
            yield _marked(document, chain.from_iterable(_of_words(document.pieces, tokenizer, kind)), marks)
        else:
            rows = tokenizer.encode_batch([document.text for document in group])
            yield from (_marked(document, ids, marks) for document, ids in zip(group, rows, strict=True))


def _groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents that are encoded side by side: one that is long, or several short ones."""
    waiting, size = list[Document](), 0
    for document in documents:
        if waiting and (size + document.size > PIECE or len(waiting) == _DOCUMENTS_AT_ONCE):
            yield waiting
            waiting, size = [], 0
        waiting.append(document)
        size += document.size
    if waiting:
        yield waiting


def _marked(document: Document, ids: Iterable[int], marks: SpecialTokens) -> Iterator[int]:
    begin, end = ([] if mark is None else [mark] for mark in (marks.begin, marks.end))
    return chain(begin * document.begins, ids, end * document.ends)


def _of_characters(piece: str, tokenizer: AnyTokenizer) -> Iterator[int]:
    """Ids of a piece of a text, of any of its pieces one after the other, which are encoded side by side."""
    starts = range(0, len(piece), _CHARACTERS_AT_ONCE)
    rows = tokenizer.encode_batch([piece[start : start + _CHARACTERS_AT_ONCE] for start in starts])
    return chain.from_iterable(rows)


def _of_words(pieces: Iterable[str], tokenizer: AnyTokenizer, kind: str) -> Iterator[Sequence[int]]:
    """Return ids of the pieces of a text, without the space that the kind bpe puts before it."""
    for number, piece in enumerate(pieces):
        if not number or kind == "words":
            yield tokenizer.encode(piece)
        else:
            yield tokenizer.encode(piece[1:]) if piece.startswith(" ") else tokenizer.encode(piece)[1:]
