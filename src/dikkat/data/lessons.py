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

    def phrasebook(self, pair: str, count: int) -> list[Phrase]:
        """Generate distinct sentences with their translation."""

    def phrasebook_split(self, pair: str) -> PhrasebookSplit:
        """Generate training, validation and test pairs."""

    def languages_of_pair(self, pair: str) -> tuple[str, str]:
        """Return the languages of a pair by its name."""


def installed_phrasebook() -> Phrasebook:
    """Return the lesson, whose functions raise `UsageError` for an unknown pair. Raises `UsageError` without one."""
    for entry_point in entry_points(group="dikkat.lessons", name="phrasebook"):
        return cast(Phrasebook, entry_point.load())
    raise UsageError("this installation has no phrasebook; reinstall dikkat, or train on files of your own")
