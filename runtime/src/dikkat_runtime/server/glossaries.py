"""Glossaries that clients make: their terms, and where these occur in a text."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits

_START = re.compile(r"\w+|[^\w\s]")


class Terms:
    """Terms with the translation that each must have; of overlapping ones the first, then the longest, counts."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._by_start: dict[str, list[tuple[str, str]]] = {}
        for term, translation in sorted(entries.items(), key=lambda entry: -len(entry[0])):
            if start := _START.match(term):
                self._by_start.setdefault(start[0].casefold(), []).append((term, translation))

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start and end of each term in a text, whatever its case, with the translation."""
        free_from = 0
        for start in _START.finditer(text):
            if start.start() < free_from:
                continue
            for term, translation in self._by_start.get(start[0].casefold(), ()):
                end = start.start() + len(term)
                if text[start.start() : end].casefold() == term.casefold() and _ends_word(text, end):
                    yield start.start(), end, translation
                    free_from = end
                    break

    @classmethod
    def of(cls, glossary: Glossary | None) -> Self | None:
        """Those of a glossary."""
        return cls(glossary.entries) if glossary else None


@dataclass(frozen=True, slots=True)
class Glossary:
    """Terms of one pair of languages."""

    name: str
    source: str
    target: str
    entries: Mapping[str, str]
    identity: str = field(default_factory=lambda: secrets.token_hex(16))
    created: float = field(default_factory=time.time)


class GlossaryStore:
    """The glossaries of every owner, kept while the server runs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_owner: dict[str, dict[str, Glossary]] = {}

    def add(self, owner: str, glossary: Glossary) -> None:
        """Keep a glossary. Raises `RequestError` for one too many."""
        own = self._by_owner.setdefault(owner, {})
        if len(own) >= self._limits.glossaries:
            raise RequestError("too_large", f"there are {len(own)} glossaries already; delete one first")
        own[glossary.identity] = glossary

    def all_of(self, owner: str) -> list[Glossary]:
        """The glossaries of an owner, the oldest first."""
        return list(self._by_owner.get(owner, {}).values())

    def get(self, owner: str, identity: str) -> Glossary:
        """One glossary. Raises `RequestError`."""
        glossary = self._by_owner.get(owner, {}).get(identity)
        if glossary is None:
            raise RequestError("not_found", "there is no such glossary", param="glossary_id")
        return glossary

    def remove(self, owner: str, identity: str) -> None:
        """Forget one glossary. Raises `RequestError`."""
        self.get(owner, identity)
        del self._by_owner[owner][identity]

    def parse(self, text: str, separator: str) -> dict[str, str]:
        """The entries of lines like `term<TAB>translation`. Raises `RequestError` that names the line."""
        entries: dict[str, str] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.removesuffix("\r")
            if not line.strip():
                continue
            term, _, translation = line.partition(separator)
            term, translation = term.strip(), translation.strip()
            if not term or not translation or separator in translation:
                raise RequestError(
                    "invalid", f"entries, line {number}: must be a term and its translation", param="entries"
                )
            if entries.setdefault(term, translation) != translation:
                raise RequestError("invalid", f"entries, line {number}: a term that stood before", param="entries")
        if not entries:
            raise RequestError("invalid", "entries holds no term", param="entries")
        if len(entries) > self._limits.glossary_entries:
            raise RequestError(
                "too_large", f"entries has over {self._limits.glossary_entries:,} terms", param="entries"
            )
        return entries


def _ends_word(text: str, end: int) -> bool:
    inside = text[end - 1 : end + 1]
    return len(inside) < 2 or not (inside[0].isalnum() and inside[1].isalnum())
