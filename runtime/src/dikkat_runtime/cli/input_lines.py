"""Read the lines of a file or of standard input; lines before a bad one are still answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.errors import DikkatError, msg
from dikkat_runtime.text.text_files import decode_lines, read_lines


class InputLines:
    """Yield lines up to the end or to one that cannot be read, whose error is raised by `finish`."""

    def __init__(self, file: Path | None) -> None:
        self._lines = read_lines(file) if file is not None else decode_lines(sys.stdin.buffer, msg("standard input"))
        self._error: DikkatError | None = None
        self._joined = 0
        self._first_joined = 0

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
