"""The constraint that an output begins with given bytes, wherever the borders of its tokens come to lie."""

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
    """First the `kept` tokens, then any tokens that begin with `rest`, the bytes behind them.

    Where no token can go on inside `rest`, as in a vocabulary of whole words, the unknown word stands for what is left.
    """

    vocabulary: VocabularyBytes
    kept: tuple[int, ...]
    rest: bytes
    is_closed: bool = False
    """Whether the last word is whole: what comes behind it does not go on with it."""

    @property
    def start(self) -> State:
        """Tokens and bytes that are written; one more behind the end."""
        return 0

    @property
    def _end(self) -> int:
        return len(self.kept) + len(self.rest)

    def after(self, state: State, token: int) -> State:
        """One more of the kept tokens, or so many more bytes."""
        if state < len(self.kept) or state >= self._end:
            return min(state, self._end) + 1
        if token == UNK_ID and state < self._end:
            return self._end
        return min(self._end, state + len(self.vocabulary.tokens[token]))

    def allowed(self, state: State) -> Tokens | None:
        """The next kept token, then those that go on with the rest; all when it is written."""
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
        """What `tokens`, an output that begins with all of it, writes behind it."""
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
        """Behind a word that is whole, what would go on with it."""
        return self.vocabulary.begins_in_word if self.is_closed and state == self._end else ()

    def wanted(self, state: State) -> Sequence[int]:
        """None: what may follow is all that does."""
        return ()

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """The model's own."""
        return float(scores[token])

    @property
    def reads_attention(self) -> bool:
        """It does not."""
        return False

    def progress(self, state: State) -> int:
        """The same for all hypotheses."""
        return 0

    def missing(self, state: State) -> int:
        """Tokens and bytes that are left."""
        return max(0, self._end - int(state))

    @property
    def extra_rows(self) -> int:
        """No more."""
        return 0
