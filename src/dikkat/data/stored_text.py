"""A text in a file without a name, in pieces that are read when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from dikkat.data.disk_arrays import DiskFile

PIECE = 1 << 20
"""Characters of a piece, about; a text without a break is a single one."""
_BREAK = re.compile(r"(?<=\S)[ \n](?=\S)")
"""Between two words of one line, or two lines: no token of a vocabulary that is made of words goes beyond."""
_Span = tuple[int, int, int]
"""Where the bytes of a piece begin and end, and its characters."""


class StoredText(Sequence[str]):
    """Hold the pieces of a text; put together they are the text. All but the first begin with a space or a new line."""

    def __init__(self, file: DiskFile, spans: Sequence[_Span]) -> None:
        self._file, self._spans = file, tuple(spans)

    @classmethod
    def store(cls, parts: Iterable[str], file: DiskFile) -> StoredText:
        """Write a text, which comes in parts, at the end of `file`. Raises `DiskError` and what `parts` raises."""
        spans = list[_Span]()
        for piece in _pieces(parts):
            content, start = piece.encode(), file.size
            file.append(content)
            spans.append((start, file.size, len(piece)))
        return cls(file, spans)

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> StoredText: ...
    def __getitem__(self, index: int | slice) -> str | StoredText:
        if isinstance(index, slice):
            return StoredText(self._file, self._spans[index])
        start, stop, _ = self._spans[index]
        return self._file.read(start, stop).decode()

    @property
    def size(self) -> int:
        """Return the number of characters."""
        return sum(count for _, _, count in self._spans)

    @property
    def num_bytes(self) -> int:
        """Return the number of bytes in UTF-8."""
        return sum(stop - start for start, stop, _ in self._spans)

    def cut(self, index: int) -> tuple[StoredText, StoredText]:
        """Return the text before character `index`, and from it on."""
        before = 0
        for number, (start, stop, count) in enumerate(self._spans):
            if index < before + count:
                middle = start + len(self[number][: index - before].encode())
                first = [*self._spans[:number], (start, middle, index - before)]
                rest = [(middle, stop, before + count - index), *self._spans[number + 1 :]]
                return StoredText(self._file, [span for span in first if span[2]]), StoredText(self._file, rest)
            before += count
        return self, StoredText(self._file, ())


def _pieces(parts: Iterable[str]) -> Iterator[str]:
    waiting, size, wanted = list[str](), 0, PIECE
    for part in parts:
        waiting.append(part)
        size += len(part)
        while size > wanted:
            text = "".join(waiting)
            gap = _BREAK.search(text, wanted // 2)
            if gap is None:
                # looked for anew when there is twice as much
                waiting, wanted = [text], 2 * size
                break
            yield text[: gap.start()]
            waiting, wanted = [text[gap.start() :]], PIECE
            size = len(waiting[0])
    if size:
        yield "".join(waiting)
