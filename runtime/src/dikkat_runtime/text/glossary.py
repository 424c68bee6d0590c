"""Glossaries: terms with the forms of their translations, and their occurrences in a text."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import read_regular, reading_errors
from dikkat_runtime.text.casing import capitalized, lower
from dikkat_runtime.text.demanded import Demanded

MAX_FILE_SIZE = 64 << 20
_START = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the source, and its translations, each of which is right."""

    source: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source} → {'|'.join(self.targets)}"


class Glossary:
    """Terms of a source language with their translations, indexed by their first word."""

    def __init__(self, terms: Iterable[Term], language: str = "") -> None:
        """`language` is that of the source; its rules decide which small and capital letters are the same term."""
        self.terms = tuple(terms)
        self._language = language
        self._by_start: dict[str, list[Term]] = {}
        for term in sorted(self.terms, key=lambda term: -len(term.source)):
            start = _START.match(term.source)
            self._by_start.setdefault(self._key(start[0] if start else term.source), []).append(term)

    @classmethod
    def read(cls, path: Path, language: str = "") -> Self:
        """Return the glossary of a file with a term, a tab and its translation a line, several separated by "|".

        Raises `MissingInputError`, or `DataError` with file and line for a row that is malformed, empty, repeated,
        or contradicts a row before it.
        """
        with reading_errors(path):
            content = read_regular(path, MAX_FILE_SIZE)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            number = content.count(b"\n", 0, error.start) + 1
            raise DataError("{path}:{number}: not valid UTF-8; convert the file with iconv", path, number) from None
        rows = text.removesuffix("\n").split("\n") if text else []
        terms = list(read_terms(enumerate(rows, start=1), lambda number: f"{path}:{number}"))
        if not terms:
            raise DataError("{path}: has no terms; write a term, a tab and its translation on each line", path)
        return cls(terms, language)

    @classmethod
    def of(cls, entries: Mapping[str, str | Sequence[str]], language: str = "") -> Self:
        """Return the glossary of a mapping from terms to one translation or several."""
        terms = [Term(term, (forms,) if isinstance(forms, str) else tuple(forms)) for term, forms in entries.items()]
        return cls(terms, language)

    def occurrences(self, text: str) -> Iterator[tuple[int, int, Term]]:
        """Yield start and end of each term in a text, as whole words; of overlapping ones the first, then the longest.

        A term in small letters also matches with a capital at its beginning, or in capitals only.
        """
        free_from = 0
        for start in _START.finditer(text):
            if start.start() < free_from:
                continue
            for term in self._by_start.get(self._key(start[0]), ()):
                end = start.start() + len(term.source)
                if self._is(text[start.start() : end], term.source) and _ends_word(text, end):
                    yield start.start(), end, term
                    free_from = end
                    break

    def demands(self, text: str) -> tuple[Demanded, ...]:
        """Return the words that the translation of a text must hold."""
        spans: dict[Term, list[tuple[int, int]]] = {}
        for start, end, term in self.occurrences(text):
            spans.setdefault(term, []).append((start, end))
        return tuple(
            Demanded(term.targets, len(occurrences), "term", term.source, tuple(occurrences))
            for term, occurrences in spans.items()
        )

    def _key(self, word: str) -> str:
        return lower(word, self._language)

    def _is(self, written: str, source: str) -> bool:
        if written == source:
            return True
        if source != lower(source, self._language) or lower(written, self._language) != source:
            return False
        return written in (capitalized(source, self._language), written.upper())


def read_terms(
    rows: Iterable[tuple[int, str]],
    name_row: Callable[[int], str],
    *,
    separator: str = "\t",
    separator_name: str = msg("tab"),
) -> Iterator[Term]:
    """Yield the term of each numbered row: a term, a separator and its translations, between which "|" stands.

    Raises `DataError` with the name of a row that is malformed, empty, repeated, or contradicts a row before it.
    """
    seen: dict[str, tuple[int, tuple[str, ...]]] = {}
    for number, line in rows:
        row, name = line.removesuffix("\r"), name_row(number)
        if not row.strip():
            raise DataError("{name}: an empty row; delete it", name)
        source, mark, targets = row.partition(separator)
        forms = tuple(form.strip() for form in targets.split("|"))
        source = source.strip()
        if not mark or separator in targets:
            raise DataError("{name}: must be a term, one {separator} and its translation", name, separator_name)
        if not source or not all(forms):
            raise DataError("{name}: the {part} is empty; fill it in", name, "translation" if source else "term")
        if source in seen:
            first, others = seen[source]
            if set(others) == set(forms):
                raise DataError("{name}: {term} is already in line {line}; delete one of them", name, source, first)
            raise DataError(
                "{name}: {term} is translated differently in line {line}; write both as {translations} in one "
                "row, or delete one"
            ).fill(name, source, first, "|".join(dict.fromkeys((*others, *forms))))
        seen[source] = number, forms
        yield Term(source, tuple(dict.fromkeys(forms)))


def _ends_word(text: str, end: int) -> bool:
    inside = text[end - 1 : end + 1]
    return len(inside) < 2 or not (inside[0].isalnum() and inside[1].isalnum())
