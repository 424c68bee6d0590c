"""Prepare the standard streams of the process: UTF-8 in every locale, and any failure in one line.

A closed stream stays closed for whoever uses it, but its number is taken, so that no file of ours is opened in its
place. What cannot be written to standard output is a `DiskError`, or a `NoReaderError` where nobody reads
the pipe any more; what cannot be written to standard error is lost, and changes no exit code.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import select
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from dikkat_runtime.errors import DikkatError, DiskError, MissingInputError, msg
from dikkat_runtime.localization import visible
from dikkat_runtime.text.text_files import decode_lines, read_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


PATIENCE = 1.0
"""Seconds that a process which was told to end waits for a reader."""


class NoReaderError(Exception):
    """Signal that nobody reads standard output any more."""

    exit_code = 141


class _Input(io.FileIO):
    """Standard input, unbuffered."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        try:
            while (size := super().readinto(buffer)) is None:
                # another process has made the pipe non-blocking; nothing is there yet
                select.select([self], [], [])
            return size
        except OSError as error:
            raise MissingInputError("standard input: {reason}", _reason(error, msg("cannot be read"))) from None

    def readall(self) -> bytes:
        """Read to the end, by `readinto`, which knows what to do with errors."""
        chunks, buffer = list[bytes](), bytearray(1 << 16)
        while size := self.readinto(buffer):
            chunks.append(bytes(buffer[:size]))
        return b"".join(chunks)


class _Output(io.FileIO):
    """Standard output, unbuffered. After a failure, which is raised once, it takes everything and writes nothing."""

    failed = False
    is_leaving = False
    """Whether the process was told to end, and must not wait for a reader."""

    def write(self, content: ReadableBuffer, /) -> int:
        size = memoryview(content).nbytes
        while not self.failed:
            try:
                if self.is_leaving:
                    return self._write_in_time(content)
                written = super().write(content)
                if written is not None:
                    return written
                # another process has made the pipe non-blocking
                select.select([], [self], [])
            except BrokenPipeError:
                self.failed = True
                raise NoReaderError from None
            except OSError as error:
                self.failed = True
                raise DiskError("standard output: {reason}", _reason(error, msg("writing failed"))) from None
        return size

    def _write_in_time(self, content: ReadableBuffer) -> int:
        if not select.select([], [self], [], PATIENCE)[1]:
            self.failed = True
            return memoryview(content).nbytes
        # a pipe that is ready takes this much without waiting
        return super().write(memoryview(content).cast("B")[: select.PIPE_BUF]) or 0


class _Messages(io.FileIO):
    """Standard error, unbuffered."""

    writes = 0
    """How often something was written."""

    def write(self, content: ReadableBuffer, /) -> int:
        self.writes += 1
        try:
            return super().write(content) or 0
        except OSError:
            return memoryview(content).nbytes


class VisibleText:
    """Write messages in the spoken language to the stream `as_is`, with control characters escaped."""

    def __init__(self, as_is: io.TextIOWrapper) -> None:
        self.as_is = as_is

    def write(self, text: str, /) -> int:
        """Write `text` with its control characters escaped."""
        self.as_is.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        """Write lines with their control characters escaped."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.as_is, name)


def prepare_streams() -> None:
    """Replace `sys.stdin`, `sys.stdout` and `sys.stderr` by streams of ours."""
    _occupy(0, os.O_WRONLY)
    _occupy(1, os.O_RDONLY)
    _occupy(2, os.O_WRONLY)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input(0, closefd=False)), "utf-8", newline="\n")
    output = _text(_Output(1, "w", closefd=False))
    # a terminal obeys, a file or the next program takes what was written
    sys.stdout = cast(IO[str], VisibleText(output)) if output.isatty() else output
    sys.stderr = cast(IO[str], VisibleText(_text(_Messages(2, "w", closefd=False), line_buffering=True)))


def _occupy(number: int, mode: int) -> None:
    """Let a closed descriptor stand for the null device, in a `mode` that is of no use to whoever needs the stream."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)


def _text(raw: io.FileIO, line_buffering: bool = False) -> io.TextIOWrapper:
    lines = line_buffering or raw.isatty()
    # a name of a file that is not UTF-8 is shown rather than refused
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", "\n", lines)


def _reason(error: OSError, failure: str) -> str:
    return msg("is closed") if error.errno == errno.EBADF else f"{failure}: {error.strerror}"


def flush_output(is_leaving: bool = False) -> None:
    """Write what is buffered for standard output. Raises `DiskError` or `NoReaderError`, after which nothing waits."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output):
        raw.is_leaving = is_leaving
    sys.stdout.flush()


def terminal() -> IO[str]:
    """Return standard error for output that uses control characters of its own."""
    stream = sys.stderr
    return stream.as_is if isinstance(stream, VisibleText) else stream


def terminal_writes() -> int:
    """Return how often something was written to standard error: a number that stays while no line follows."""
    raw = getattr(getattr(terminal(), "buffer", None), "raw", None)
    return raw.writes if isinstance(raw, _Messages) else 0


def print_report(lines: Iterable[str]) -> None:
    """Print lines for people, with control characters always escaped, since others may have written the text."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))


def print_json(content: Any, indent: int | None = 2, without: Collection[str] = ()) -> None:
    """Print JSON on standard output: of a dataclass its fields and properties, but those named by `without`.

    A number that JSON does not have is null.
    """
    text = json.dumps(_plain(content, without), indent=indent, ensure_ascii=False, allow_nan=False)
    # JSON leaves these as they are, and what escapes them for a terminal is not JSON
    print_report([text.translate({code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)})])


def _plain(value: Any, without: Collection[str] = ()) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        computed = [name for name, member in vars(type(value)).items() if isinstance(member, property)]
        names = [name for name in (*value.__dataclass_fields__, *computed) if name not in without]
        value = {name: getattr(value, name) for name in names}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_written(*paths: Path | None) -> None:
    """Say on standard error which files lie there now; None stands for one that nobody asked for."""
    for path in paths:
        if path is not None:
            print_note("wrote {path}", visible(str(path)))


def is_interactive(path: Path | None) -> bool:
    """Tell whether somebody types the lines and waits for each answer."""
    return path is None and sys.stdin.isatty()


def print_remark(line: str) -> None:
    print(line, file=sys.stderr)


def print_note(template: str, *values: object) -> None:
    """Write a template with its values to standard error."""
    print_remark(msg(template, *values))


class InputLines:
    """Yield lines up to the end or to one that cannot be read, whose error is raised by `finish`."""

    def __init__(self, file: Path | None) -> None:
        self._lines = read_lines(file) if file is not None else decode_lines(sys.stdin.buffer, msg("standard input"))
        self._error: DikkatError | None = None
        self._joined = self._first_joined = 0

    def __iter__(self) -> Iterator[str]:
        try:
            for number, line in enumerate(self._lines, start=1):
                if "\r" in line:
                    self._joined += 1
                    self._first_joined = self._first_joined or number
                yield line
        except DikkatError as error:
            self._error = error

    def finish(self) -> None:
        """Note what is unusual, and raise the error that ended the lines, if there is one.

        It is called when all lines are answered.
        """
        if self._joined:
            lines = "1 line" if self._joined == 1 else msg("{count:,} lines", self._joined)
            print_note(
                msg(
                    "{lines} had a carriage return (\\r) inside, which does not end a line here; tr '\\r' '\\n' "
                    "makes lines of them (line {first})"
                ).fill(lines, self._first_joined)
            )
        if self._error is not None:
            raise self._error
