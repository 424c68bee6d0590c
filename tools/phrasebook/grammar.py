"""The abstract sentences of the phrasebook: what is said, before any language says it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, TypeAlias

from tools.phrasebook.lexicon import (
    Adjective,
    Adverb,
    Gender,
    Modal,
    Name,
    Noun,
    Number,
    Preposition,
    Pronoun,
    Tense,
    Time,
    Verb,
)


class Agreement(NamedTuple):
    """The features that a verb or an adjective agrees with; `gender` is the grammatical one of French."""

    person: int
    plural: bool
    gender: Gender

    @property
    def row(self) -> int:
        """The row of a conjugation table: 0-2 singular, 3-5 plural."""
        return self.person - 1 + 3 * self.plural


class Determiner(IntEnum):
    """The determiner of a noun. `GENERIC` is the bare noun of "I like cats", `INDEFINITE` also "some"."""

    DEFINITE = 0
    INDEFINITE = 1
    THIS = 2
    THAT = 3
    POSSESSED = 4
    GENERIC = 5
    COUNTED = 6
    MANY = 7
    EVERY = 8
    HOW_MANY = 9


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with its company. `reflexive`: the possessor is the subject of the same clause."""

    noun: Noun
    determiner: Determiner = Determiner.DEFINITE
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    number: Number | None = None
    possessor: Pronoun | Name | NounPhrase | None = None
    reflexive: bool = False


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two subjects joined by "and"; `I` stands last."""

    first: Name | NounPhrase
    second: Pronoun | Name | NounPhrase


@dataclass(frozen=True, slots=True)
class Anaphor:
    """The pronoun that takes up a nominal named before, which is the subject of its clause or something else in it."""

    antecedent: Pronoun | Name | NounPhrase | Coordination
    of_subject: bool = True


Referent: TypeAlias = Pronoun | Name | NounPhrase | Coordination
Nominal: TypeAlias = Referent | Anaphor


@dataclass(frozen=True, slots=True)
class Locative:
    """A prepositional phrase of place."""

    preposition: Preposition
    landmark: NounPhrase


class Wh(Enum):
    """The word that asks. `WHERE_TO` and `WHERE_FROM` ask for the goal of a motion verb."""

    WHO = "who"
    WHAT = "what"
    WHERE = "where"
    WHERE_TO = "where to"
    WHERE_FROM = "where from"
    WHEN = "when"
    WHY = "why"
    HOW_MANY = "how many"


class Mood(IntEnum):
    """The mood of a clause; `REQUEST` is an imperative with "please"."""

    STATEMENT = 0
    QUESTION = 1
    COMMAND = 2
    REQUEST = 3


@dataclass(frozen=True, slots=True)
class Action:
    """Somebody does something. `habitual` takes the English simple present instead of the progressive."""

    verb: Verb
    modal: Modal | None = None
    object: Nominal | None = None
    recipient: Nominal | None = None
    locative: Locative | None = None
    companion: Nominal | None = None
    adverb: Adverb | None = None
    habitual: bool = False


class Degree(IntEnum):
    """The degree of an adjective; `PLAIN` adds no word."""

    PLAIN = 0
    VERY = 1
    TOO = 2


@dataclass(frozen=True, slots=True)
class Quality:
    """Somebody or something is so."""

    adjective: Adjective
    degree: Degree = Degree.PLAIN


@dataclass(frozen=True, slots=True)
class Comparison:
    """More (+1), as much (0) or less (-1) so than somebody else."""

    adjective: Adjective
    degree: int
    standard: Nominal


@dataclass(frozen=True, slots=True)
class Location:
    """Somebody or something is somewhere; None is the gap of a "where" question."""

    locative: Locative | None


@dataclass(frozen=True, slots=True)
class Possession:
    """Somebody has something."""

    thing: NounPhrase


Predicate: TypeAlias = Action | Quality | Comparison | Location | Possession


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject with its predicate. `contracted` is English only: "doesn't" for "does not"."""

    subject: Nominal
    predicate: Predicate
    tense: Tense
    mood: Mood = Mood.STATEMENT
    negative: bool = False
    contracted: bool = False
    wh: Wh | None = None
    time: Time | None = None
    time_first: bool = False


@dataclass(frozen=True, slots=True)
class Existence:
    """There is something somewhere."""

    thing: NounPhrase
    locative: Locative
    tense: Tense
    mood: Mood = Mood.STATEMENT
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """One clause because of another."""

    result: Clause
    cause: Clause


Sentence: TypeAlias = Clause | Existence | Reason


def agreement(nominal: Nominal) -> Agreement:
    """Person, number and grammatical gender of a nominal; a mixed or unknown group is masculine, as in French."""
    if isinstance(nominal, NounPhrase):
        return Agreement(3, nominal.plural, nominal.noun.gender)
    if isinstance(nominal, Pronoun):
        return Agreement(nominal.person, nominal.plural, nominal.gender)
    if isinstance(nominal, Name):
        return Agreement(3, False, nominal.gender)
    if isinstance(nominal, Anaphor):
        return agreement(nominal.antecedent)
    first, second = agreement(nominal.first), agreement(nominal.second)
    gender: Gender = "f" if first.gender == second.gender == "f" else "m"
    return Agreement(min(first.person, second.person), True, gender)


def is_definite(nominal: Nominal) -> bool:
    """Return whether a nominal is specific: a Turkish direct object then takes the accusative."""
    if not isinstance(nominal, NounPhrase):
        return True
    return nominal.determiner not in _INDEFINITE


_INDEFINITE = frozenset((Determiner.INDEFINITE, Determiner.COUNTED, Determiner.MANY, Determiner.HOW_MANY))
