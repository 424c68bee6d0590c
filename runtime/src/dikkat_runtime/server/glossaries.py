"""Keep glossaries that clients make, and parse their terms."""

import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

from dikkat_runtime.errors import DataError
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segments import in_thread
from dikkat_runtime.server.settings import Limits
from dikkat_runtime.text.glossary import Glossary, Term, read_terms

MAX_CONCURRENT = 5
"""Glossaries of one request."""
_MAX_INLINE_TERMS, _MAX_INLINE_LENGTH = 1000, 20_000


@dataclass(frozen=True, slots=True)
class StoredGlossary:
    """The terms of one pair of languages, under the name that a client gave."""

    name: str
    source: str
    target: str
    terms: Sequence[Term]
    identity: str = field(default_factory=lambda: secrets.token_hex(16))
    created: float = field(default_factory=time.time)


async def glossary_of(terms: Collection[Term], language: str) -> Glossary:
    """Return the glossary of these terms; of many, it is made next to the event loop."""
    return Glossary(terms, language) if len(terms) <= _MAX_INLINE_TERMS else await in_thread(Glossary, terms, language)


class GlossaryStore:
    """The glossaries of every owner, kept while the server runs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_owner: dict[str, dict[str, StoredGlossary]] = {}

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Keep a glossary. Raises `RequestError` for one too many."""
        own = self._by_owner.setdefault(owner, {})
        if len(own) >= self._limits.glossaries:
            raise RequestError("too_large", f"there are {len(own)} glossaries already; delete one first")
        own[glossary.identity] = glossary

    def all_of(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an owner, the oldest first."""
        return list(self._by_owner.get(owner, {}).values())

    def get(self, owner: str, identity: str) -> StoredGlossary:
        """Return one glossary. Raises `RequestError`."""
        glossary = self._by_owner.get(owner, {}).get(identity)
        if glossary is None:
            raise RequestError("not_found", "there is no such glossary", param="glossary_id")
        return glossary

    def remove(self, owner: str, identity: str) -> None:
        """Delete one glossary. Raises `RequestError`."""
        self.get(owner, identity)
        del self._by_owner[owner][identity]

    async def parse(self, text: str, separator: str, separator_name: str) -> list[Term]:
        """Return the terms of lines as in the file of a glossary; empty lines are none.

        Raises `RequestError` that names the line.
        """
        if len(text) <= _MAX_INLINE_LENGTH:
            return self._parse(text, separator, separator_name)
        return await in_thread(self._parse, text, separator, separator_name)

    def _parse(self, text: str, separator: str, separator_name: str) -> list[Term]:
        rows = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        named = read_terms(
            rows, lambda number: f"entries, line {number}", separator=separator, separator_name=separator_name
        )
        try:
            # no more are read than are needed to refuse them
            terms = list(islice(named, self._limits.glossary_entries + 1))
        except DataError as error:
            raise RequestError("invalid", str(error), param="entries") from None
        if not terms:
            raise RequestError("invalid", "entries holds no term", param="entries")
        if len(terms) > self._limits.glossary_entries:
            raise RequestError(
                "too_large", f"entries has over {self._limits.glossary_entries:,} terms", param="entries"
            )
        return terms
