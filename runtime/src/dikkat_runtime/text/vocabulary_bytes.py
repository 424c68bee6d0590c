"""List the bytes that each entry of a vocabulary adds to a text, so that a text can be continued inside a word."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.pieces import piece_bytes

Ids = NDArray[np.int64]
EntryKind = Literal["bytes", "words", "characters", "pieces"]
"""The way in which entries become text: byte by byte, joined by spaces, unchanged, or with a space for each "▁"."""
_OPENERS = "\"'“‘’„«‹([{¿¡-–—/"
_MAX_KEPT = 4096
"""Most answers that are kept."""


class VocabularyBytes:
    """The bytes of every token; a text is those of its tokens, but for a space at the beginning."""

    def __init__(self, tokens: Sequence[bytes], *, leading_space: bool) -> None:
        """`tokens` are those of all ids, empty for special tokens. With `leading_space` decoding drops one space."""
        self.tokens = tokens
        self.leading_space = leading_space
        self._ids = [number for number, token in enumerate(tokens) if token]
        self._ids.sort(key=lambda number: tokens[number])
        self._keys = [tokens[number] for number in self._ids]
        self._longest = max(map(len, tokens), default=0)
        self._id_of = {token: number for number, token in reversed(list(enumerate(tokens))) if token}
        self._continuing: dict[bytes, Ids] = {}

    @classmethod
    def of(cls, entries: Sequence[str], kind: EntryKind, byte_of: Mapping[str, int], *, leading_space: bool) -> Self:
        """Return the bytes of `entries`, the first of them special tokens. `byte_of` is the byte of each character."""
        tokens = [entry.encode() for entry in entries]
        if kind == "bytes":
            tokens = [bytes(byte_of.get(character, 0) for character in entry) for entry in entries]
        elif kind == "pieces":
            tokens = [piece_bytes(entry) for entry in entries]
        elif kind == "words":
            tokens = [b" " + token for token in tokens]
        # only the token of unknown words occurs in a text
        unknown = b"" if kind == "bytes" else tokens[UNK_ID]
        specials = [unknown if number == UNK_ID else b"" for number in range(len(SPECIAL_TOKENS))]
        return cls([*specials, *tokens[len(specials) :]], leading_space=leading_space)

    def continuing(self, rest: bytes) -> Ids:
        """Return the tokens that `rest` begins with, and those that begin with it, in rising order."""
        if (known := self._continuing.get(rest)) is not None:
            return known
        starts = (rest[:size] for size in range(1, min(len(rest), self._longest + 1)))
        parts = [self._id_of[start] for start in starts if start in self._id_of]
        tokens = np.array(sorted({*parts, *self._starting_with(rest)}), np.int64)
        if len(self._continuing) < _MAX_KEPT:
            self._continuing[rest] = tokens
        return tokens

    def _starting_with(self, rest: bytes) -> list[int]:
        start = bisect_left(self._keys, rest)
        stem = rest.rstrip(b"\xff")
        end = bisect_left(self._keys, stem[:-1] + bytes([stem[-1] + 1])) if stem else len(self._keys)
        return self._ids[start:end]

    @cached_property
    def begins_in_word(self) -> Ids:
        """The tokens whose first character is a letter, a digit or a part of a character, in rising order."""
        return np.array([number for number, token in enumerate(self.tokens) if is_word(token[:4])], np.int64)

    @cached_property
    def begins_outside_word(self) -> Ids:
        """All other tokens but the special ones, in rising order."""
        inside = set(self.begins_in_word.tolist())
        outside = (number for number, token in enumerate(self.tokens) if token and number not in inside)
        return np.array(list(outside), np.int64)

    def opens(self, token: int) -> bool:
        """Return whether a token ends in a sign or a space after which a word begins, such as a bracket."""
        return token in self._opening

    @cached_property
    def _opening(self) -> frozenset[int]:
        lasts = ((number, token.decode("utf-8", "replace")[-1:]) for number, token in enumerate(self.tokens))
        return frozenset(number for number, last in lasts if last and (last.isspace() or last in _OPENERS))

    def text(self, ids: Sequence[int]) -> bytes:
        raw = b"".join(self.tokens[number] for number in ids)
        return raw[1:] if self.leading_space and raw.startswith(b" ") else raw


def is_word(raw: bytes) -> bool:
    """Return whether the first character is one of a word; an incomplete character counts as one."""
    for size in range(1, len(raw) + 1):
        try:
            character = raw[:size].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return character.isalnum() or character == "_"
    return bool(raw)
