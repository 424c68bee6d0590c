"""Standard input and output of a command: UTF-8 whatever the locale is, lines split at newlines only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dikkat_runtime.errors import DataError, DiskError, MissingInputError, reason_of, unreadable
from dikkat_runtime.files import MAX_LINE_LENGTH
from dikkat_runtime.messages import msg
from dikkat_runtime.text.visible import visible


class Output:
    """Standard output. Raises `DiskError` where it is closed or a write fails, `BrokenPipeError` where nobody reads."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise DiskError("standard output is closed; there is nowhere to write to")
        self._stream: IO[bytes] = sys.stdout.buffer
        self._is_terminal = sys.stdout.isatty()

    def write(self, text: str) -> None:
        """Write a text; a terminal gets it with its control characters escaped, since it would obey them."""
        shown = visible(text) if self._is_terminal else text
        try:
            self._stream.write(shown.encode("utf-8", "replace"))
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        """Write the buffered text out."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        discard_output()
        if isinstance(error, BrokenPipeError):
            raise error
        raise DiskError("standard output: writing failed: {strerror}").fill(reason_of(error)) from None


def discard_output() -> None:
    """Discard unwritten output, so that it is not tried again when the process ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_interactive(path: Path | None) -> bool:
    """Return whether somebody types the lines and waits for each answer."""
    return path is None and sys.stdin is not None and sys.stdin.isatty()


def lines(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file or of standard input. Raises `MissingInputError`, or `DataError` with file and line."""
    try:
        stream = _open(path)
        try:
            yield from _decoded(stream, _name(path))
        finally:
            if path is not None:
                stream.close()
    except OSError as error:
        raise unreadable(_name(path), error) from None


def text(path: Path | None) -> str:
    """Return all of a file or of standard input, without the last line break. Raises as `lines`."""
    return "\n".join(lines(path))


def _open(path: Path | None) -> IO[bytes]:
    if path is not None:
        return path.open("rb")
    if sys.stdin is None:
        raise MissingInputError("standard input is closed; name a file, or pipe text in")
    return sys.stdin.buffer


def _decoded(stream: IO[bytes], where: str) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_LINE_LENGTH + 1):
        number += 1
        if len(line) > MAX_LINE_LENGTH:
            raise DataError(
                "{where}:{number}: the line has more than {max_line_length:,} bytes; break it into sentences"
            ).fill(where, number, MAX_LINE_LENGTH)
        try:
            decoded = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError("{where}:{number}: byte 0x{line} is not valid UTF-8; convert the file with iconv").fill(
                where, number, f"{line[error.start]:02X}"
            ) from None
        yield decoded.removeprefix("\ufeff") if number == 1 else decoded


def _name(path: Path | None) -> str:
    return msg("standard input") if path is None else str(path)
