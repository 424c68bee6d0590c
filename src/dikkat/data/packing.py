"""Pack documents into one stream and cut it into windows, in an order that is a function of the position alone.

A document is `<bos>`, its ids, `<eos>`; a `Corpus` holds it as a source with nothing to translate into. Windows of one
length cover the stream from an offset that is drawn anew in each epoch, and are shuffled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.data.corpus import Corpus
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Hold B windows of the stream, each one token longer than the input: the last is only predicted."""

    tokens: IntArray
    """(B, T+1)."""
    documents: IntArray | None
    """(B, T+1): number of each token's document; None where the stream is one document."""


class Windows:
    """Cut a corpus of documents into windows: a pure function of stream, context, batch size, seed and epoch."""

    def __init__(self, corpus: Corpus, context: int, tokens_per_batch: int, seed: int) -> None:
        self._corpus = corpus
        self.num_tokens = len(corpus.ids)
        """Tokens of the stream."""
        self._ends = np.cumsum(corpus.source_lengths)
        self._seed = seed
        if self.num_tokens < 2:
            raise DataError("a language model needs at least two tokens of text")
        self.length = min(context, self.num_tokens - 1)
        self.total = -(-(self.num_tokens - 1) // self.length)
        """Windows side by side from the start of the stream; the last one may be shorter."""
        self._count = max(1, (self.num_tokens - self.length) // self.length)
        self.batch_size = min(self._count, max(1, tokens_per_batch // self.length))
        self._cached: tuple[int, IntArray] = (-1, np.empty(0, np.int64))

    def token_counts(self, vocab_size: int) -> IntArray:
        """Return how often each token of the vocabulary is in the stream, `(V,)`."""
        counts = np.zeros(vocab_size, np.int64)
        for block in self._corpus.blocks():
            counts += np.bincount(block, minlength=vocab_size)
        return counts

    @property
    def batches_per_epoch(self) -> int:
        """Return the batches in any epoch; what does not fill the last one is left to the next epochs."""
        return self._count // self.batch_size

    def at(self, position: int) -> Packed:
        """Return the batch that comes after `position` batches."""
        epoch, within = divmod(position, self.batches_per_epoch)
        if self._cached[0] != epoch:
            self._cached = (epoch, self._starts(epoch))
        starts = self._cached[1][within * self.batch_size : (within + 1) * self.batch_size]
        return self._packed(starts, self.length)

    def in_order(self, most_tokens: int) -> Iterator[Packed]:
        """Yield windows side by side from the start of the stream.

        There are at most `most_tokens` tokens, evenly spread over it.
        """
        last = self.num_tokens - 1
        starts = np.arange(0, last, self.length)
        most = max(1, most_tokens // self.length)
        if len(starts) > most:
            starts = starts[np.linspace(0, len(starts) - 1, most).astype(int)]
        whole = starts[starts + self.length <= last]
        for first in range(0, len(whole), self.batch_size):
            yield self._packed(whole[first : first + self.batch_size], self.length)
        for start in starts[starts + self.length > last]:
            yield self._packed(np.array([start]), last - int(start))

    def _starts(self, epoch: int) -> IntArray:
        # Raw bits of the generator: numpy keeps these the same for ever, its shuffling it does not.
        bits = np.random.PCG64(np.random.SeedSequence([self._seed % 2**64, epoch]))
        spare = self.num_tokens - 1 - self._count * self.length
        offset = int(bits.random_raw() % (spare + 1))
        return offset + np.argsort(bits.random_raw(self._count), kind="stable") * self.length

    def _packed(self, starts: IntArray, length: int) -> Packed:
        tokens = self._corpus.ids.gather(starts, np.full(len(starts), length + 1)).reshape(len(starts), length + 1)
        if len(self._ends) == 1:
            return Packed(tokens.astype(np.int64), None)
        # (B, 1) + (T+1,) -> (B, T+1)
        indices = starts[:, None] + np.arange(length + 1)
        return Packed(tokens.astype(np.int64), np.searchsorted(self._ends, indices, side="right"))


# Turn windows of text into training examples: predict the next tokens, the hidden ones, or those after a prefix.

MASK_ID = UNK_ID
"""Id in place of a hidden token: that of the unknown token."""

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Hold B windows to learn from, int64."""

    tokens: IntArray
    """(B, T): input of the model."""
    wanted: IntArray
    """(B, T): target at each position."""
    predicted: BoolArray | None
    """(B, T): where the target counts; None is everywhere."""
    documents: IntArray | None
    """(B, T): number of the document of each token, none of which sees another's; None where there is only one."""
    prefix: IntArray | None = None
    """(B,): number of first tokens that are seen by all."""

    def select(self, rows: IntArray) -> "Example":
        """Return the windows `rows` (N,)."""
        fields = (self.tokens, self.wanted, self.predicted, self.documents, self.prefix)
        return Example(*(None if field is None else field[rows] for field in fields))  # type: ignore[arg-type]

    @property
    def position_ids(self) -> IntArray | None:
        """Return (B, T) positions that begin anew at each document; None where they are 0 ... T-1."""
        if self.documents is None:
            return None
        columns = np.broadcast_to(np.arange(self.documents.shape[1]), self.documents.shape)
        is_first = np.ones(self.documents.shape, bool)
        is_first[:, 1:] = self.documents[:, 1:] != self.documents[:, :-1]
        return columns - np.maximum.accumulate(np.where(is_first, columns, 0), axis=1)


def next_tokens(packed: Packed) -> Example:
    """Predict every token from those before it; the first of a document is not predicted."""
    tokens, wanted = packed.tokens[:, :-1], packed.tokens[:, 1:]
    if packed.documents is None:
        return Example(tokens, wanted, None, None)
    documents = packed.documents[:, :-1]
    return Example(tokens, wanted, documents == packed.documents[:, 1:], documents)


def hidden_tokens(packed: Packed, share: float, vocab_size: int, generator: np.random.Generator) -> Example:
    """Predict a `share` of the tokens of each window, at least one, special ones excepted, from all the others.

    Of ten such tokens eight are hidden, one is replaced by a random one, one stays (Devlin et al. 2019, section 3.1).
    """
    wanted = packed.tokens[:, :-1]
    documents = None if packed.documents is None else packed.documents[:, :-1]
    ordinary = wanted >= len(SPECIAL_TOKENS)
    ranks = np.where(ordinary, generator.random(wanted.shape), 2.0).argsort(axis=1).argsort(axis=1)
    predicted = (ranks < max(1, round(share * wanted.shape[1]))) & ordinary
    fate = generator.random(wanted.shape)
    others = generator.integers(len(SPECIAL_TOKENS), vocab_size, wanted.shape)
    tokens = np.where(predicted & (fate < 0.8), MASK_ID, wanted)
    tokens = np.where(predicted & (fate >= 0.9), others, tokens)
    return Example(tokens, wanted, predicted, documents)


def after_prefix(packed: Packed, generator: np.random.Generator) -> Example:
    """Predict every token after a prefix of random length from those before it; inside the prefix all see all."""
    example = next_tokens(packed)
    prefix = generator.integers(0, example.tokens.shape[1], len(example.tokens))
    # a position inside the prefix has seen what follows it
    predicted = np.arange(example.tokens.shape[1]) >= prefix[:, None] - 1
    if example.predicted is not None:
        predicted = predicted & example.predicted
    return Example(example.tokens, example.wanted, predicted, example.documents, prefix)
