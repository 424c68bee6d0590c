"""Decode a file of text in any charset, and encode it back to the same bytes."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dikkat_runtime.documents.segments import Content, Edit, OverlapError, Segment, splice
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.charsets import require_charset

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def byte_order_mark(data: bytes) -> tuple[bytes, str | None]:
    """Return the byte-order mark at the beginning of a file and its charset; nothing and None without one."""
    return next(((mark, charset) for mark, charset in _MARKS if data.startswith(mark)), (b"", None))


@dataclass(frozen=True)
class DecodedFile:
    """The characters of a file, without its byte-order mark."""

    name: str
    text: str
    charset: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes, name: str, charset: str | None = None) -> DecodedFile:
        """Read bytes by their byte-order mark, else in `charset`, else as UTF-8.

        Raises `DataError` with the byte position for bytes that are not of the charset, and for an unknown charset.
        """
        mark, marked = byte_order_mark(data)
        chosen = marked or require_charset(charset or "utf-8", name)
        try:
            text = data[len(mark) :].decode(chosen)
        except UnicodeDecodeError as error:
            raise DataError(
                "{name}: byte {count:,} (0x{data}) is not valid {chosen}; convert the file with iconv"
            ).fill(name, len(mark) + error.start, f"{data[len(mark) + error.start]:02X}", chosen.upper()) from None
        file = cls(name, text, chosen, mark)
        if file.encode(text) != data:
            raise DataError("{name}: its charset {chosen} does not give the same bytes back; convert it to UTF-8").fill(
                name, chosen
            )
        return file

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Return the bytes of a text in the file's charset. Raises `DataError` for a character that it lacks."""
        try:
            return self.mark + text.encode(self.charset, errors)
        except UnicodeEncodeError as error:
            raise DataError(
                "{name}: its charset {charset} has no {text}, which a translation needs; convert the file to UTF-8"
            ).fill(self.name, self.charset, repr(text[error.start])) from None

    def line(self, position: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._line_starts, position)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, position = [0], -1
        while (position := self.text.find("\n", position + 1)) >= 0:
            starts.append(position + 1)
        return starts


@dataclass
class TextDocument:
    """A file of text into which translations are spliced."""

    file: DecodedFile
    segments: Sequence[Segment]
    remarks: Counter[str] = field(default_factory=Counter)
    also: Sequence[Edit] = ()
    """Changes beside the targets, such as the declared language of a file."""
    markup: bool = True
    """True if tags may stand in the texts themselves."""
    errors: str = "strict"
    """Treatment of a character that the charset lacks, as in `str.encode`."""

    def write(self, translations: Sequence[Content]) -> bytes:
        """Return the file with one translation for each segment."""
        edits = [
            edit
            for segment, content in zip(self.segments, translations, strict=True)
            for edit in segment.edits(content)
        ]
        also: Iterable[Edit] = self.also if edits else ()
        try:
            text = splice(self.file.text, [*edits, *also])
        except OverlapError as error:
            where = f"{self.file.name}:{self.file.line(error.position)}"
            raise DataError("{where}: a text stands inside another one, which no such file needs; part them").fill(
                where
            ) from None
        return self.file.encode(text, self.errors)
