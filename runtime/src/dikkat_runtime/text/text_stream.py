"""Turn tokens into text as soon as it is certain: whole characters, and nothing that a stop string may cut off."""

from collections.abc import Sequence
from typing import Protocol

_HALF = "\ufffd"
"""The character that decoding writes for bytes that are not characters, or not yet."""


class Decoder(Protocol):
    """A decoder turns ids into text."""

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids, in order."""


class TextStream:
    """The text of tokens that come one by one, after the tokens `before`, whose text is not repeated.

    The text ends before the first of the `stop` strings. Bytes that never become a character come out as U+FFFD.
    """

    def __init__(self, tokenizer: Decoder, before: Sequence[int] = (), stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        # the tokens given out last stay: the space before a token may depend on the one before it
        self._given_out, self._fresh = list(before), list[int]()
        self._stop = [string for string in stop if string]
        self._held = ""
        self.stopped = False
        """Whether a stop string was met; after it there is no more text."""

    def feed(self, token: int) -> str:
        """Return the text that has become certain with one more token; often it is empty."""
        self._fresh.append(token)
        text = self._text()
        if text.endswith(_HALF):
            return ""
        self._given_out, self._fresh = self._fresh, []
        return self._before_stop(text, final=False)

    def end(self) -> str:
        """Return the rest, when no more tokens come."""
        text = self._text() if self._fresh else ""
        self._fresh = []
        return self._before_stop(text, final=True)

    def _text(self) -> str:
        known, both = self._tokenizer.decode_batch([self._given_out, [*self._given_out, *self._fresh]])
        return both[len(known) :]

    def _before_stop(self, text: str, final: bool) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        indices = [index for string in self._stop if (index := text.find(string)) >= 0]
        if indices:
            self.stopped, self._held = True, ""
            return text[: min(indices)]
        sure = len(text) if final else len(text) - max((_overlap(text, string) for string in self._stop), default=0)
        self._held = text[sure:]
        return text[:sure]


def _overlap(text: str, stop: str) -> int:
    """Return how many last characters of `text` may be the start of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
