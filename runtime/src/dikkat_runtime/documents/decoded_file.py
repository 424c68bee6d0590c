"""Decode a file of text in any charset, and encode it back to the same bytes."""

import codecs
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dikkat_runtime.documents.segments import (
    Content,
    Edit,
    Options,
    OverlapError,
    Segment,
    edits_of,
    is_unchanged,
    plain,
    splice,
)
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.text_files import require_charset

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 1 << 16
"""Bytes by which a charset is guessed."""
_LANGUAGES = {
    "cp1250": "bs,cs,hr,hu,pl,ro,sk,sl,sq", "cp1251": "be,bg,kk,mk,ru,sr,uk", "cp1253": "el", "cp1254": "az,tr",
    "cp1255": "he,iw,yi", "cp1256": "ar,fa,ur", "cp1257": "et,lt,lv", "cp1258": "vi", "cp874": "th",
}  # fmt: skip
_PAGES = {language: page for page, languages in _LANGUAGES.items() for language in languages.split(",")}


def byte_order_mark(data: bytes) -> tuple[bytes, str | None]:
    """Return the byte-order mark at the beginning of a file and its charset; nothing and None without one."""
    return next(((mark, charset) for mark, charset in _MARKS if data.startswith(mark)), (b"", None))


def _is_valid(data: bytes, charset: str) -> bool:
    try:
        data.decode(charset)
    except UnicodeDecodeError:
        return False
    return True


def guess_charset(data: bytes, name: str, language: str) -> str:
    """Return the charset that a text of a language, which may be empty, is most likely in.

    Raises `DataError` where none is found.
    """
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        raise DataError(
            "{name}: is not UTF-8, and its charset is not known; pip install dikkat-runtime[detect] reads others", name
        ) from None
    match = from_bytes(data[:_SAMPLE]).best()
    if match is None:
        raise DataError("{name}: is not UTF-8, and its charset cannot be told; convert it to UTF-8 with iconv", name)
    # the sets of the ISO lack the quotation marks and dashes that those of Windows add in the place of controls
    # short texts look alike in all sets of one byte a letter, but each language is written in one of them
    expected = _PAGES.get(language[:2].lower(), "cp1252")
    is_single = match.encoding.startswith(("cp10", "cp12", "iso8859", "latin", "mac", "cp4", "cp8", "cp7", "koi", "hp"))
    return expected if is_single and _is_valid(data, expected) else str(match.encoding)


@dataclass(frozen=True)
class DecodedFile:
    """The characters of a file, without its byte-order mark."""

    name: str
    text: str
    charset: str = "utf-8"
    mark: bytes = b""
    is_guessed: bool = False
    """True if the charset was found from the bytes alone."""

    @classmethod
    def decode(
        cls, data: bytes, name: str, charset: str | None = None, *, language: str | None = None
    ) -> "DecodedFile":
        """Read bytes by their byte-order mark, else in `charset`, else as UTF-8.

        With a `language`, which may be empty, other bytes are read in the charset that they are most likely in.

        Raises `DataError` with the byte position for bytes that are not of the charset, and for an unknown charset.
        """
        mark, marked = byte_order_mark(data)
        chosen = marked or require_charset(charset or "utf-8", name)
        is_guessed = False
        if language is not None and not marked and charset is None and not _is_valid(data, "utf-8"):
            chosen, is_guessed = guess_charset(data, name, language), True
        try:
            text = data[len(mark) :].decode(chosen)
        except UnicodeDecodeError as error:
            raise DataError(
                "{name}: byte {position:,} (0x{byte}) is not valid {charset}; convert the file with iconv"
            ).fill(name, len(mark) + error.start, f"{data[len(mark) + error.start]:02X}", chosen.upper()) from None
        file = cls(name, text, chosen, mark, is_guessed)
        if file.encode(text) != data:
            raise DataError(
                "{name}: its charset {charset} does not give the same bytes back; convert it to UTF-8", name, chosen
            )
        return file

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Return the bytes of a text in the file's charset. Raises `DataError` for a character that it lacks."""
        try:
            return self.mark + text.encode(self.charset, errors)
        except UnicodeEncodeError as error:
            raise DataError(
                "{name}: its charset {charset} has no {character}, which a translation needs; convert the file to UTF-8"
            ).fill(self.name, self.charset, repr(text[error.start])) from None

    def line(self, position: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._line_starts, position)

    def segment(self, start: int, end: int, content: Content, write: Callable[[Content], str]) -> Segment:
        """Return the segment of the characters `start` to `end`, which stay where their text comes back unchanged.

        `write` returns a translation as it stands in the file.
        """
        return Segment(
            content,
            lambda translation: [] if is_unchanged(translation, content) else [Edit(start, end, write(translation))],
            self.line(start),
            start,
        )

    @cached_property
    def newline(self) -> str:
        """The end of its lines."""
        return "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]


@dataclass
class TextDocument:
    """A file of text into which translations are spliced."""

    file: DecodedFile
    segments: Sequence[Segment]
    remarks: Counter[str] = field(default_factory=Counter)
    also: Sequence[Edit] = ()
    """Changes other than the targets, such as the declared language of a file."""
    markup: bool = True
    """True if tags may stand in the texts themselves."""
    errors: str = "strict"
    """Treatment of a character that the charset lacks, as in `str.encode`."""

    def __post_init__(self) -> None:
        if self.file.is_guessed:
            self.remarks[msg("files read as {charset}, a guess, and written in it", self.file.charset)] = 1

    def write(self, translations: Sequence[Content]) -> bytes:
        edits = edits_of(self.segments, translations)
        try:
            text = splice(self.file.text, [*edits, *(self.also if edits else ())])
        except OverlapError as error:
            where = f"{self.file.name}:{self.file.line(error.position)}"
            raise DataError(
                "{where}: a text is nested in another text, which no such file needs; separate them", where
            ) from None
        return self.file.encode(text, self.errors)


_LINE = re.compile(r"\S[^\r\n]*")


def read_text(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the lines of a file that hold words."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    segments = []
    for match in _LINE.finditer(file.text):
        text = match[0].rstrip()
        if has_words(text):
            segments.append(file.segment(match.start(), match.start() + len(text), (text,), plain))
    return TextDocument(file, segments, markup=False)
