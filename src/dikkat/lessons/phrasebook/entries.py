"""Record types of the lexicon: each word of the phrasebook in the three languages.

Entries compare by identity, so that they are cheap keys. `kinds` are the semantic classes that decide who may do what.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

Gender = Literal["m", "f"]


class Tense(IntEnum):
    """When it happens."""

    PRESENT = 0
    PAST = 1
    FUTURE = 2


class Case(IntEnum):
    """The Turkish cases; `NOMINATIVE` has no suffix."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    LOCATIVE = 3
    ABLATIVE = 4
    GENITIVE = 5
    INSTRUMENTAL = 6


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A common noun; `oblique` is the Turkish stem before a vowel (kitab-), empty where the general rule gives it."""

    english: str
    french: str
    gender: Gender
    turkish: str
    kinds: frozenset[str]
    english_plural: str = ""
    oblique: str = ""

    @property
    def mass(self) -> bool:
        """Return whether it is not counted: bread, water."""
        return "mass" in self.kinds


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name, the same in all three languages."""

    text: str
    gender: Gender


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun (or `who`) with its forms.

    `french` is the subject clitic, `stressed` stands after a preposition; `turkish_cases` is indexed by `Case`.
    """

    english: str
    english_object: str
    english_possessive: str
    person: int
    plural: bool
    gender: Gender
    french: str
    direct: str
    dative: str
    stressed: str
    turkish_cases: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `before` says that French puts it before the noun, `animate_turkish` is its word for living beings.

    `state` marks a passing condition (tired), `gradable` one that can be compared.
    """

    english: str
    french: str
    turkish: str
    kinds: frozenset[str]
    before: bool = False
    gradable: bool = False
    state: bool = False
    colour: bool = False
    animate_turkish: str = ""


class Preposition(IntEnum):
    """Where, whither and whence."""

    IN = 0
    ON = 1
    UNDER = 2
    BEHIND = 3
    IN_FRONT_OF = 4
    NEAR = 5
    TO = 6
    AT = 7
    FROM = 8
    INTO = 9


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with the classes of its arguments and how each language governs them.

    `english` and `english_past` may end in a particle ("look at"); `to` says that French puts `à` before the object;
    `case` is the Turkish case of the object. `stative` verbs have no English progressive, `imperfect` ones take the
    French imparfait in the past, `punctual` ones have no present, `specific` ones take only definite objects, `generic`
    ones also whole kinds ("I like cats"), and `manner` ones an adverb. `sites` are the places where one does it, empty
    where all the common ones will do; `placeless` verbs are said without a place, `sociable` ones with a companion.
    """

    english: str
    english_past: str
    french: str
    turkish: str
    subjects: str = "person"
    objects: str = ""
    recipients: str = ""
    goal: Preposition | None = None
    case: Case = Case.ACCUSATIVE
    to: bool = False
    stative: bool = False
    imperfect: bool = False
    punctual: bool = False
    specific: bool = False
    generic: bool = False
    manner: bool = False
    placeless: bool = False
    sociable: bool = False
    sites: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A verb that takes an infinitive; `linker` is French (`à`, `de`, nothing), `suffix` the Turkish infinitive's."""

    verb: Verb
    linker: str
    suffix: str


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of frequency or manner; `never` makes its clause negative in French and Turkish."""

    english: str
    french: str
    turkish: str
    frequency: bool = False
    never: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression with the tenses that it allows."""

    english: str
    french: str
    turkish: str
    tenses: tuple[Tense, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A cardinal number from two upwards."""

    english: str
    french: str
    turkish: str
