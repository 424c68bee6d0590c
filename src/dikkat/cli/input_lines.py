"""The lines of a file or of standard input, of which those before a bad one are still answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from dikkat.data.text_files import decode_lines, read_lines
from dikkat.errors import DikkatError


class InputLines:
    """Lines up to the end or to one that cannot be read; what was wrong with that one is raised by `finish`."""

    def __init__(self, file: Path | None) -> None:
        self._lines = read_lines(file) if file is not None else decode_lines(sys.stdin.buffer, "standard input")
        self._error: DikkatError | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            yield from self._lines
        except DikkatError as error:
            self._error = error

    def finish(self) -> None:
        """Raise the error that ended the lines, if one did; call it when the lines before are answered."""
        if self._error is not None:
            raise self._error
