"""Pairs that an installed lesson generates; the lesson is found by its entry point in the group `dikkat.lessons`."""

from importlib.metadata import entry_points
from typing import NamedTuple, Protocol, cast

from dikkat_runtime.errors import UsageError


class Link(NamedTuple):
    """Two words of one text, counted from 0: the word of `row` means that of `column`."""

    row: int
    column: int


class Phrase(NamedTuple):
    """A sentence, its translation, and its number, counted from 1."""

    source: str
    target: str
    line: int
    link: Link | None = None
    """The pronoun of an English source and the noun that it means, where it has both."""


class PhrasebookSplit(NamedTuple):
    """Pairs to learn from and pairs whose combinations of content words never occur among those."""

    train: list[Phrase]
    validation: list[Phrase]
    test: list[Phrase]


class Phrasebook(Protocol):
    """The functions of the lesson `phrasebook`."""

    def phrasebook(self, pair: str, count: int) -> list[Phrase]: ...

    def phrasebook_split(self, pair: str) -> PhrasebookSplit: ...

    def languages_of_pair(self, pair: str) -> tuple[str, str]: ...


def _installed_phrasebook() -> Phrasebook:
    for entry_point in entry_points(group="dikkat.lessons", name="phrasebook"):
        return cast(Phrasebook, entry_point.load())
    raise UsageError("this installation has no phrasebook; reinstall dikkat, or train on files of your own")


def phrasebook(pair: str, count: int) -> list[Phrase]:
    """Generate distinct sentences with their translation. Raises `UsageError` for an unknown pair."""
    return _installed_phrasebook().phrasebook(pair, count)


def phrasebook_split(pair: str) -> PhrasebookSplit:
    """Generate training, validation and test pairs. Raises `UsageError` for an unknown pair."""
    return _installed_phrasebook().phrasebook_split(pair)


def languages_of_pair(pair: str) -> tuple[str, str]:
    """Return the languages of a pair by its name. Raises `UsageError` for an unknown pair."""
    return _installed_phrasebook().languages_of_pair(pair)
