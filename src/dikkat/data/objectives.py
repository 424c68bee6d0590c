"""Turn windows of text into training examples: predict the next tokens, the hidden ones, or those after a prefix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.data.packing import IntArray, Packed
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID

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

    def select(self, rows: IntArray) -> Example:
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
