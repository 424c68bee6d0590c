"""A constraint that an output begins with given bytes, whatever the borders of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.constraints import State, Tokens
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import UNK_ID
from dikkat_runtime.text.vocabulary_bytes import VocabularyBytes, is_word


@dataclass(frozen=True)
class Prefix:
    """A constraint that an output begins with the `kept` tokens, then with tokens whose bytes begin with `rest`.

    Where no token fits inside `rest`, as in a vocabulary of whole words, the unknown word stands for the remaining
    bytes.
    """

    vocabulary: VocabularyBytes
    kept: tuple[int, ...]
    rest: bytes
    is_closed: bool = False
    """True if the last word is whole: the next token does not continue it."""

    @property
    def start(self) -> State:
        """The number of tokens and bytes written; one more behind the end."""
        return 0

    @property
    def _end(self) -> int:
        return len(self.kept) + len(self.rest)

    def after(self, state: State, token: int) -> State:
        """Return the state after one more of the kept tokens, or after the bytes of a token."""
        if state < len(self.kept) or state >= self._end:
            return min(state, self._end) + 1
        if token == UNK_ID and state < self._end:
            return self._end
        return min(self._end, state + len(self.vocabulary.tokens[token]))

    def allowed(self, state: State) -> Tokens | None:
        """Return the next kept token, then the tokens that fit `rest`; None when the prefix is written."""
        if state < len(self.kept):
            return self.kept[state : state + 1]
        if state >= self._end:
            return None
        rest = self.rest[state - len(self.kept) :]
        tokens = self.vocabulary.continuing(rest)
        if self.is_closed:
            tokens = np.array([token for token in tokens if not self._goes_on(token, len(rest))], np.int64)
        return tokens if len(tokens) else (UNK_ID,)

    def _goes_on(self, token: int, size: int) -> bool:
        behind = self.vocabulary.tokens[token][size:]
        return bool(behind) and is_word(behind)

    def continuation(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes that `tokens`, an output with this prefix, write behind the prefix."""
        state, written = 0, b""
        for token in tokens:
            raw = self.vocabulary.tokens[token]
            if state >= self._end:
                written += raw
            elif state >= len(self.kept) and token != UNK_ID:
                written += raw[self._end - state :]
            state = self.after(state, token)
        return written

    def banned(self, state: State) -> Tokens:
        """Return the tokens that would continue a whole last word."""
        return self.vocabulary.begins_in_word if self.is_closed and state == self._end else ()

    def wanted(self, state: State) -> Sequence[int]:
        """Return no token: `allowed` names all that may follow."""
        return ()

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """Return the model's own log-probability."""
        return float(scores[token])

    @property
    def reads_attention(self) -> bool:
        """False: the constraint reads no attention."""
        return False

    def progress(self, state: State) -> int:
        """Return 0 for every hypothesis."""
        return 0

    def missing(self, state: State) -> int:
        """Return the number of tokens and bytes of the prefix that are not written."""
        return max(0, self._end - int(state))

    @property
    def extra_rows(self) -> int:
        """The constraint needs no more rows."""
        return 0
