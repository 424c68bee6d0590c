"""Read plain text as documents: files, or folders of files, one document each; and hold a part out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import overload

from dikkat.data.disk_arrays import DiskFile
from dikkat.data.near_duplicates import near_key
from dikkat_runtime.errors import DataError, MissingInputError, unreadable
from dikkat_runtime.text.packed import without_packing
from dikkat_runtime.text.text_files import read_lines

# A text in a file without a name, in pieces that are read when they are asked for.

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
        return sum(count for _, _, count in self._spans)

    @property
    def num_bytes(self) -> int:
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


TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst")
"""Suffixes of files in a folder that are text, also packed (with .gz and the like after it)."""
HELD_OUT_SHARE = 10
"""One character in this many is held out."""
FEW_DOCUMENTS = 20
"""With fewer documents the end of each is held out, with as many or more whole documents are."""
MIN_CHARACTERS = 10
"""Fewest characters in a part that something can be learned or measured from."""

_MAX_LINE_LENGTH = 1 << 27
"""Longest line in bytes; some corpora are one line of 100 MB."""


@dataclass(frozen=True, slots=True)
class Document:
    """Hold a text, or the part of it that the split has left, in pieces on disk."""

    name: str
    pieces: StoredText
    begins: bool = True
    """Whether the text begins here."""
    ends: bool = True
    """Whether the text ends here."""

    @property
    def text(self) -> str:
        """Return the text as a whole."""
        return "".join(self.pieces)

    @property
    def size(self) -> int:
        return self.pieces.size


def read_documents(data: Sequence[str], directory: Path | None = None) -> Iterator[Document]:
    """Yield every file of `data`, and every text file in its folders and their folders, in the order of their names.

    Lines end in "\n". Texts are kept in a file without a name in `directory`, by default in the system's place for
    temporary files, so that memory does not grow with them. Empty files in folders are passed over. Raises
    `MissingInputError` for what is not there and for a folder without text, `DiskError`, and `DataError` for a file
    that is empty, not UTF-8 or damaged, each naming the place.
    """
    store = DiskFile(directory)
    for name in data:
        for path in _files(Path(name)):
            lines = (f"{line}\n" for line in read_lines(path, _MAX_LINE_LENGTH))
            yield Document(str(path), StoredText.store(lines, store))


def split_documents(documents: Sequence[Document], seed: int) -> tuple[list[Document], list[Document]]:
    """Split documents into a training part and a held-out part of about a tenth of the characters.

    Of few documents the last tenth of each is held out; of more, whole documents, chosen by the hash of their text, so
    that near-duplicates stay together. Raises `DataError` when there is too little text for two parts.
    """
    if len(documents) < FEW_DOCUMENTS:
        parts = [_cut(document) for document in documents]
        train, held_out = [first for first, _ in parts if first.size], [last for _, last in parts if last.size]
    else:
        train, held_out = _by_hash(documents, seed)
    if min(sum(document.size for document in part) for part in (train, held_out)) < MIN_CHARACTERS:
        raise DataError("{name}: too little text to train on one part and validate on another", documents[0].name)
    return train, held_out


def _cut(document: Document) -> tuple[Document, Document]:
    first, last = document.pieces.cut(int(document.size * (1 - 1 / HELD_OUT_SHARE)))
    return replace(document, pieces=first, ends=False), replace(document, pieces=last, begins=False)


def _by_hash(documents: Sequence[Document], seed: int) -> tuple[list[Document], list[Document]]:
    groups: dict[bytes, list[int]] = {}
    for number, document in enumerate(documents):
        groups.setdefault(_hash(document.pieces, seed), []).append(number)
    quota = sum(document.size for document in documents) // HELD_OUT_SHARE
    chosen: set[int] = set()
    for _, numbers in sorted(groups.items()):
        size = sum(documents[number].size for number in numbers)
        if size <= quota:
            chosen.update(numbers)
            quota -= size
    train = [document for number, document in enumerate(documents) if number not in chosen]
    return train, [documents[number] for number in sorted(chosen)]


def _hash(pieces: Iterable[str], seed: int) -> bytes:
    digest = blake2b(digest_size=8, key=str(seed).encode())
    for number, piece in enumerate(pieces):
        # a key has one space where a text has white space, and pieces are cut at white space
        digest.update((" " * bool(number) + near_key(piece)).encode("utf-8", "replace"))
    return digest.digest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in _below(path) if file.stat().st_size)
    if not files:
        names = ", ".join(f"*{suffix}" for suffix in TEXT_SUFFIXES)
        raise MissingInputError(
            "{path}: holds no text: no file named {names} (also compressed) has anything in it", path, names
        )
    return files


def _below(folder: Path) -> Iterable[Path]:
    def refuse(error: OSError) -> None:
        raise unreadable(error.filename, error)

    for where, folders, names in os.walk(folder, onerror=refuse):
        # hidden folders hold settings and histories
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and without_packing(Path(where, name)).lower().endswith(TEXT_SUFFIXES):
                yield Path(where, name)
