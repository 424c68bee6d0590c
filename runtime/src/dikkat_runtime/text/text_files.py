"""Read lines of UTF-8 text from a file, a packed file or standard input, strictly decoded, in constant memory.

A line ends at "\n" and nowhere else: U+2028, form feeds and their like are part of the text, so that the number of
lines is what `wc -l` says. One "\r" before the "\n" (or at the end of the file) belongs to the line end of Windows
and is dropped; any other "\r" is kept. A byte-order mark at the start of UTF-8 is dropped.
"""

import codecs
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Protocol

from dikkat_runtime.errors import DataError, MissingInputError, msg, nearest, unreadable
from dikkat_runtime.files import MAX_LINE_LENGTH
from dikkat_runtime.text.file_kinds import binary_kind, is_utf16, markup_kind
from dikkat_runtime.text.foreign_json import shown
from dikkat_runtime.text.packed import open_unpacked

_NO_CHARSETS = frozenset(("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"))
"""Codecs of Python from text to bytes that are not a charset of any file."""


def require_charset(charset: str, name: str) -> str:
    """Return the charset that the file `name` declares. Raises `DataError` for one that is unknown, or none of text."""
    try:
        # what is not an encoding of text, such as base64, refuses an empty text too
        "".encode(charset)
        is_known = codecs.lookup(charset).name not in _NO_CHARSETS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        raise DataError(
            '{name}: its charset "{charset}" is unknown or not for text; correct what the file declares, or '
            "convert it to UTF-8"
        ).fill(name, shown(charset))
    return charset


STANDARD_INPUT = msg("standard input")
"""What messages call text that is piped in, and so has no file to convert."""
_LETTERS_OF_1250 = re.compile(rb"[A-Za-z][\xb3\xb9\xbf\x9c\x9a\x9d\x9e\x9f][a-z\xe0-\xff]")
"""Polish, Czech and Slovak letters inside words, where Western text has a superscript or a quotation mark."""
_TURKISH, _ICELANDIC = b"\xfd\xfe\xf0\xdd\xde\xd0", b"\xe1\xe9\xed\xf3\xfa\xe6\xc1\xc9\xcd\xd3\xda\xc6"
"""Letters that are Turkish in windows-1254 and Icelandic in windows-1252, and those that only Icelandic has."""


def guess_encoding(raw: bytes) -> str:
    """Return the likely encoding of a line that is not valid UTF-8; empty where its bytes do not tell.

    Told apart are the Western, Central European, Turkish, Greek and Cyrillic ones of one byte a letter.
    """
    if any(letter != "\ufffd" and ord(letter) > 127 for letter in raw.decode("utf-8", "replace")):
        return ""  # most of it is UTF-8: a damaged place, not another encoding
    high = [byte for byte in raw if byte >= 0xC0]
    others = sum(0x80 <= byte < 0xC0 for byte in raw)
    if not high:
        return "windows-1252" if others else ""
    letters = len(high) + sum(bytes([byte]).isalpha() for byte in raw)
    if 2 * len(high) <= letters:
        return _of_latin_letters(raw)
    if 4 * others > len(high):
        return ""  # scripts of several bytes a character
    if 20 * sum(0xDC <= byte <= 0xDF for byte in high) > len(high):
        return "windows-1253"
    return "windows-1251" if 2 * sum(byte >= 0xE0 for byte in high) > len(high) else "koi8-r"


def _of_latin_letters(raw: bytes) -> str:
    if _LETTERS_OF_1250.search(raw):
        return "windows-1250"
    turkish, icelandic = (sum(byte in letters for byte in raw) for letters in (_TURKISH, _ICELANDIC))
    return "windows-1254" if turkish > icelandic else "windows-1252"


def conversion(raw: bytes, name: str) -> str:
    """Return the advice for the file `name`, or `STANDARD_INPUT`, in which the line `raw` is not valid UTF-8."""
    encoding = guess_encoding(raw)
    if not encoding:
        return msg("correct the line, or convert the file with iconv -f ENCODING -t UTF-8")
    if name == STANDARD_INPUT:
        return msg("it reads like {encoding}; pipe it through: iconv -f {encoding} -t UTF-8", encoding)
    return msg("it reads like {encoding}; convert it with: iconv -f {encoding} -t UTF-8 {quote} > utf8.txt").fill(
        encoding, shlex.quote(name)
    )


MAX_LINE_BYTES = MAX_LINE_LENGTH

_MARKUP_LINES = 20
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_BYTE_ORDER = (b"\xff\xfe", b"\xfe\xff")
_COUNT_UP_TO = 100_000_000
"""A line over the limit is measured up to this many bytes: standard input may never end."""


class ByteLines(Protocol):
    """Describe a stream of bytes: the binary files of `open` and `sys.stdin.buffer` fit."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or its first `size` bytes; nothing at the end of the stream."""


def read_lines(
    path: Path,
    max_line_bytes: int = MAX_LINE_BYTES,
    skip: Callable[[DataError], None] | None = None,
    *,
    lenient: bool = False,
) -> Iterator[str]:
    """Yield lines of a plain or packed file (see `packed`), without their ends; the file is opened at the first `next`.

    Raises `MissingInputError` (no such file, a folder, unreadable) or `DataError` (empty, no text, not UTF-8, a line of
    more than `max_line_bytes`, badly packed), each naming the place. Of a `lenient` reader bytes that are not UTF-8
    become the replacement character instead.
    """
    empty = True
    with reading_errors(path), open_unpacked(path) as stream:
        for line in decode_lines(stream, str(path), max_line_bytes, skip, lenient=lenient):
            empty = False
            yield line
    if empty:
        raise DataError("{path}: the file is empty", path)


def _state(path: Path) -> tuple[int, ...]:
    """What tells a file from another one and from itself after a change; empty for a pipe and the like."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system while a file is read into `MissingInputError`.

    Raises `DataError` for a file that is another one, or has another size or time, when it was read to its end.
    """
    try:
        before = _state(path)
        yield
        if before != _state(path):
            raise DataError("{path}: changed while it was read; let it be written to its end, then start again", path)
    except FileNotFoundError:
        raise MissingInputError("{path}: there is no such file{or}", path, _offer(path)) from None
    except IsADirectoryError:
        raise MissingInputError("{path}: is a folder; name a file in it", path) from None
    except OSError as error:
        raise unreadable(path, error) from None


def read_text_lines(path: Path, *, lenient: bool = False) -> Iterator[str]:
    """Yield the lines of a file that is to hold one text a line.

    Raises the errors of `read_lines`, and `DataError` for markup.
    """
    lines = read_lines(path, lenient=lenient)
    begin = list(islice(lines, _MARKUP_LINES))
    if (kind := markup_kind(begin)) is not None:
        raise DataError("{name}: is {kind}", path, kind)
    if len(begin) == 1 and "\r" in begin[0].strip("\r"):
        raise DataError(
            "{path}: holds one line, with carriage returns (\\r) in it, as old Macs end lines; make lines of them: tr "
            "'\\r' '\\n' < {quote} > lines.txt"
        ).fill(path, shlex.quote(str(path)))
    yield from begin
    yield from lines


def decode_lines(
    stream: ByteLines,
    name: str,
    max_line_bytes: int = MAX_LINE_BYTES,
    skip: Callable[[DataError], None] | None = None,
    *,
    lenient: bool = False,
) -> Iterator[str]:
    """Yield lines of an open binary stream called `name` in messages; no lines and empty lines are allowed.

    With `skip`, which gets the error instead, a line of more than `max_line_bytes` is an empty one.

    Raises `DataError` with `name:line` for binary data, UTF-16, invalid UTF-8 (column: 1-based, in characters) and a
    line of more than `max_line_bytes`. Never holds more than one line.
    """
    number = 0
    while raw := stream.readline(max_line_bytes + 1):
        number += 1
        if number == 1:
            raw = _check_start(raw, name)
            if not raw:  # nothing but a byte-order mark
                continue
        # Text has no NUL; in UTF-16 without a mark every second byte of Latin script is one.
        if b"\0" in raw and (number == 1 or raw != b"\0\n") and is_utf16(raw):
            raise _looks_like_utf16(name)
        if len(raw) > max_line_bytes and not raw.endswith(b"\n"):
            error = _too_long(stream, f"{name}:{number}", len(raw), max_line_bytes, to_end=skip is not None)
            if skip is None:
                raise error
            skip(error)
            raw = b""
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        yield line.decode("utf-8", "replace") if lenient else _decode(line, name, number)


def _check_start(raw: bytes, name: str) -> bytes:
    if raw.startswith(_UTF16_BYTE_ORDER):
        raise _looks_like_utf16(name)
    if (kind := binary_kind(raw)) is not None:
        raise DataError("{name}: is {kind}", name, kind)
    return raw.removeprefix(_UTF8_MARK)


def _decode(raw: bytes, name: str, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise DataError(
            "{name}:{line}:{column}: byte 0x{byte} is not valid UTF-8 (column in characters); {advice}"
        ).fill(name, number, column, f"{raw[error.start]:02X}", conversion(raw, name)) from None


def _looks_like_utf16(name: str) -> DataError:
    return DataError("{name}: looks like UTF-16; convert with iconv -f UTF-16 -t UTF-8", name)


def _too_long(stream: ByteLines, where: str, size: int, limit: int, *, to_end: bool) -> DataError:
    rest = b""
    while (to_end or size < max(limit, _COUNT_UP_TO)) and (rest := stream.readline(65536)):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    ended = not rest or rest.endswith(b"\n")
    size -= rest.endswith(b"\n")
    shown = f"{size:,}" if ended else msg("more than {size:,}", size)
    return DataError("{where}: the line has {size} bytes, over the limit of {limit:,}; break it into sentences").fill(
        where, shown, limit
    )


def _offer(path: Path) -> str:
    if not path.parent.is_dir():
        return msg("; there is no folder {parent} either", path.parent)
    try:
        return nearest(path.name, (entry.name for entry in path.parent.iterdir() if entry.is_file()))
    except OSError:
        return ""
