"""Tokens in, text out as soon as it is sure: whole characters only, and nothing that a stop string may yet cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_HALF = "\ufffd"
"""What decoding puts in the place of bytes that are no character, or not yet."""


class Decoder(Protocol):
    """Turns ids into text."""

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Text of each row of ids, in order."""
        ...


class TextStream:
    """The text of tokens that come one by one, after the tokens `before`, which are not told again.

    The text ends before the first of the `stop` strings. Bytes that never become a character come out as U+FFFD.
    """

    def __init__(self, tokenizer: Decoder, before: Sequence[int] = (), stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        # the tokens told last stay: the space before a token may depend on the one before it
        self._told, self._fresh = list(before), list[int]()
        self._stop = [each for each in stop if each]
        self._held = ""
        self.stopped = False
        """Whether a stop string was met; after it there is no more text."""

    def feed(self, token: int) -> str:
        """What has become sure with one more token; often nothing."""
        self._fresh.append(token)
        text = self._text()
        if text.endswith(_HALF):
            return ""
        self._told, self._fresh = self._fresh, []
        return self._before_stop(text, final=False)

    def end(self) -> str:
        """The rest, when no more tokens come."""
        text = self._text() if self._fresh else ""
        self._fresh = []
        return self._before_stop(text, final=True)

    def _text(self) -> str:
        """Of the fresh tokens."""
        known, both = self._tokenizer.decode_batch([self._told, [*self._told, *self._fresh]])
        return both[len(known) :]

    def _before_stop(self, text: str, final: bool) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        found = [place for each in self._stop if (place := text.find(each)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        sure = len(text) if final else len(text) - max((_overlap(text, each) for each in self._stop), default=0)
        self._held = text[sure:]
        return text[:sure]


def _overlap(text: str, stop: str) -> int:
    """How many last characters of `text` may be the start of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
