"""Read pairs from a translation memory (`.tmx`) as a stream.

Source: TMX 1.4b, LISA/GALA. Nothing outside the file is fetched, and a file that declares entities is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from dikkat.data.packed import open_unpacked
from dikkat.data.pairs import Pair
from dikkat.data.text_files import MAX_LINE_BYTES, reading_errors
from dikkat_runtime.errors import DataError, UsageError, nearest

_CHUNK = 1 << 16
_CODE = frozenset(("bpt", "ept", "it", "ph", "ut"))
"""Elements in a segment that hold codes of the format that the text came from."""


def read_tmx(path: Path, languages: tuple[str | None, str | None]) -> Iterator[Pair]:
    """Yield pairs of the segments of two languages: those named, else the source language of the file and its only
    other.

    A unit without one of the two is passed over. Raises `UsageError` for a language that the first unit lacks or that
    has to be named, `DataError` for what is no TMX, and `MissingInputError`.
    """
    memory = _Memory(path)
    source, target = languages
    with reading_errors(path), open_unpacked(path) as file:
        is_last = False
        while not is_last:
            chunk = file.read(_CHUNK)
            is_last = not chunk
            memory.feed(chunk, is_last)
            for line, unit in memory.units:
                if source is None or target is None or line == memory.first_line:
                    source, target = _chosen(path, unit, (source, target), memory.source_language)
                if (ours := _segment(unit, source)) and (theirs := _segment(unit, target)):
                    yield Pair(ours, theirs, line)
            memory.units.clear()
    if not memory.first_line:
        raise DataError(f"{path}: holds no translation unit, so it is no translation memory (.tmx)")


def _chosen(
    path: Path, unit: dict[str, str], named: tuple[str | None, str | None], source_language: str
) -> tuple[str, str]:
    for name in filter(None, named):
        if not _segment(unit, name):
            raise UsageError(f'{path}: has no language "{name}"{nearest(name, unit)}; known: {", ".join(unit)}')
    source = named[0] or next(
        (language for language in unit if _are_same(language, source_language)), next(iter(unit), "")
    )
    others = [language for language in unit if not _are_same(language, source)]
    if named[1] is None and len(others) != 1:
        raise UsageError(
            f"{path}: holds the languages {', '.join(unit)}; choose two, as with --source-column"
            f" {source or 'en'} --target-column {others[0] if others else 'fr'}"
        )
    return source, named[1] or others[0]


def _segment(unit: dict[str, str], language: str) -> str:
    return next((text for name, text in unit.items() if _are_same(name, language)), "")


def _are_same(name: str, language: str) -> bool:
    """Whether a language is meant by a code: en-US by en, but not by en-GB."""
    one, other = name.lower().replace("_", "-"), language.lower().replace("_", "-")
    return one == other or one.partition("-")[0] == other


class _Memory:
    """Takes a file in pieces and gathers its units, each a text for each language."""

    def __init__(self, path: Path) -> None:
        self.units: list[tuple[int, dict[str, str]]] = []
        self.source_language = ""
        self.first_line = 0
        self._path, self._unit, self._language = path, dict[str, str](), ""
        self._line, self._text, self._size, self._inside, self._codes = 0, list[str](), 0, False, 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse

    def feed(self, chunk: bytes, is_last: bool) -> None:
        """Read one more piece of the file."""
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            raise DataError(f"{self._path}:{error.lineno}: not valid XML ({expat.ErrorString(error.code)})") from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "header":
            self.source_language = attributes.get("srclang", "")
        elif name == "tu":
            self._line, self._unit = self._parser.CurrentLineNumber, {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self._text, self._size, self._inside, self._codes = [], 0, True, 0
        elif name in _CODE:
            self._codes += 1

    def _end(self, name: str) -> None:
        if name == "seg":
            self._unit[self._language], self._inside = " ".join("".join(self._text).split()), False
        elif name in _CODE:
            self._codes -= 1
        elif name == "tu":
            self.first_line = self.first_line or self._line
            self.units.append((self._line, self._unit))

    def _characters(self, text: str) -> None:
        if not self._inside or self._codes:
            return
        self._size += len(text)
        if self._size > MAX_LINE_BYTES:
            raise DataError(f"{self._path}:{self._line}: a segment of more than {MAX_LINE_BYTES:,} characters")
        self._text.append(text)

    def _refuse(self, name: str, *_: object) -> NoReturn:
        raise DataError(f'{self._path}: declares the entity "{name}", as no translation memory needs to; not read')
