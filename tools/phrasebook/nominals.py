"""Random noun phrases and places that make sense: who owns what, which adjective fits which noun, what stands where."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Generic, TypeVar

from tools.phrasebook.grammar import (
    Coordination,
    Determiner,
    Locative,
    Nominal,
    NounPhrase,
    Referent,
    agreement,
)
from tools.phrasebook.lexicon import (
    ADJECTIVES,
    HE,
    NAMES,
    NOUNS,
    NUMBERS,
    PRONOUNS,
    SHE,
    THEY,
    WE,
    WHO,
    YOU,
    Adjective,
    I,
    Name,
    Noun,
    Preposition,
    Pronoun,
)

# The random choices of the phrasebook: a seeded stream of numbers, the same on every machine and Python version.

_Item = TypeVar("_Item")


class Weighted(Generic[_Item]):
    """Items with the weights they are drawn by."""

    def __init__(self, *weighted: tuple[_Item, float]) -> None:
        self.items = [item for item, _ in weighted]
        self.bounds = list(accumulate(weight for _, weight in weighted))


class Dice:
    """Draws from one seeded stream. Only `Random.random` is used: Python promises that its sequence never changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of the items, all equally likely."""
        return items[int(self._random() * len(items))]

    def draw(self, weighted: Weighted[_Item]) -> _Item:
        """One of the items by weight."""
        return weighted.items[bisect(weighted.bounds, self._random() * weighted.bounds[-1], hi=len(weighted.items) - 1)]


_D = Determiner
_SUBJECT_DETERMINERS = Weighted(
    (_D.DEFINITE, 54), (_D.POSSESSED, 20), (_D.THIS, 5), (_D.THAT, 4), (_D.INDEFINITE, 8), (_D.COUNTED, 7),
    (_D.EVERY, 2),
)  # fmt: skip
_OBJECT_DETERMINERS = Weighted(
    (_D.DEFINITE, 40), (_D.INDEFINITE, 26), (_D.POSSESSED, 15), (_D.THIS, 4), (_D.THAT, 3), (_D.COUNTED, 7),
    (_D.MANY, 4), (_D.EVERY, 1),
)  # fmt: skip
_SPECIFIC_DETERMINERS = Weighted((_D.DEFINITE, 60), (_D.POSSESSED, 28), (_D.THIS, 7), (_D.THAT, 5))
_MASS_DETERMINERS = Weighted((_D.DEFINITE, 45), (_D.INDEFINITE, 45), (_D.THIS, 10))
_ALWAYS_SINGULAR = (_D.EVERY,)
_ALWAYS_PLURAL = (_D.COUNTED, _D.MANY, _D.HOW_MANY)

_OWNABLE_ANIMALS = frozenset(("cat", "dog", "bird", "rabbit", "horse", "cow"))
_OWNABLE_SITES = frozenset(("house", "room", "kitchen", "garden", "office", "farm"))
_UNOWNED = frozenset(("train", "tree", "river", "bridge", "road"))
_SPEAKERS = (I, YOU, WE)
_CHILDISH = frozenset(("small", "happy", "sad", "tired", "sick", "quiet"))


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """The nouns that have one of the kinds; `animate` is a person or an animal."""
    wanted = set(kinds.replace("animate", "person animal").split())
    return tuple(noun for noun in NOUNS if noun.kinds & wanted)


# A baby is fed and looked for, but neither sells nor studies.
_AGENTS = tuple(noun for noun in nouns_of("person") if "infant" not in noun.kinds)


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that fit a noun."""
    fitting = tuple(adjective for adjective in ADJECTIVES if adjective.kinds & noun.kinds)
    if "infant" in noun.kinds:
        return tuple(adjective for adjective in fitting if adjective.english in _CHILDISH)
    return tuple(adjective for adjective in fitting if "child" not in noun.kinds or adjective.english != "old")


@cache
def _colours_of(noun: Noun) -> tuple[Adjective, ...]:
    return tuple(adjective for adjective in adjectives_of(noun) if adjective.colour)


@cache
def ownable(noun: Noun) -> bool:
    """Return whether somebody can own what the noun names, so that "my" fits it."""
    if "person" in noun.kinds:
        return "kin" in noun.kinds
    if "animal" in noun.kinds:
        return noun.english in _OWNABLE_ANIMALS
    if "place" in noun.kinds:
        return noun.english in _OWNABLE_SITES
    return noun.english not in _UNOWNED and "mass" not in noun.kinds


def _attributes(dice: Dice, noun: Noun) -> tuple[Adjective, ...]:
    """No adjective, one, or one with a colour after it: petite … blanche."""
    fitting = adjectives_of(noun)
    if not fitting or not dice.chance(0.24):
        return ()
    first = dice.pick(fitting)
    colours = _colours_of(noun)
    if colours and first.before and dice.chance(0.3):
        return first, dice.pick(colours)
    return (first,)


def _own_pronoun(subject: Nominal) -> Pronoun | None:
    """The pronoun by which a subject owns things; None for animals and things, for "who" and "every"."""
    if subject is WHO:
        return None
    if isinstance(subject, NounPhrase) and ("person" not in subject.noun.kinds or subject.determiner is _D.EVERY):
        return None
    person, many, gender = agreement(subject)
    if person == 3:
        return THEY if many else SHE if gender == "f" else HE
    return (WE if many else I) if person == 1 else YOU


def _owner(dice: Dice, subject: Nominal | None, noun: Noun) -> tuple[Pronoun | Name | NounPhrase, bool]:
    """Who owns it, and whether that is the subject in the third person.

    Beside a third person the only other third persons are names and nouns, so that "his" is never in doubt.
    """
    own = _own_pronoun(subject) if subject is not None else None
    if own is not None and dice.chance(0.6):
        return own, own.person == 3
    if dice.chance(0.25) and "kin" not in noun.kinds:
        return _named_owner(dice, subject), False
    free = subject is None or (own is not None and own.person < 3)
    return dice.pick(PRONOUNS if free else _SPEAKERS), False


def _named_owner(dice: Dice, subject: Nominal | None) -> Name | NounPhrase:
    if dice.chance(0.5):
        return dice.pick([name for name in NAMES if name is not subject])
    taken = subject.noun if isinstance(subject, NounPhrase) else None
    people = [noun for noun in nouns_of("person") if noun is not taken and "kin" not in noun.kinds]
    return NounPhrase(dice.pick(people), plural=dice.chance(0.25))


def phrase(
    dice: Dice, noun: Noun, determiner: Determiner, subject: Nominal | None = None, plural: bool | None = None
) -> NounPhrase:
    """A noun phrase with this noun and determiner, the rest by chance; `subject` is that of its clause."""
    if determiner is _D.POSSESSED and not ownable(noun):
        determiner = _D.DEFINITE
    if plural is None:
        plural = dice.chance(0.08 if "place" in noun.kinds else 0.22)
    plural = plural and "unique" not in noun.kinds
    plural = (plural or determiner in _ALWAYS_PLURAL) and not noun.mass and determiner not in _ALWAYS_SINGULAR
    number = dice.pick(NUMBERS) if determiner is _D.COUNTED else None
    if determiner is _D.DEFINITE and plural and dice.chance(0.15):
        number = dice.pick(NUMBERS)
    adjectives = () if determiner is _D.GENERIC else _attributes(dice, noun)
    if determiner is not _D.POSSESSED:
        return NounPhrase(noun, determiner, plural, adjectives, number)
    owner, reflexive = _owner(dice, subject, noun)
    return NounPhrase(noun, determiner, plural, adjectives, number, owner, reflexive)


def subject_phrase(dice: Dice, noun: Noun, definite: bool = False) -> NounPhrase:
    """A noun phrase that can be a subject."""
    determiner = dice.draw(_SPECIFIC_DETERMINERS if noun.mass or definite else _SUBJECT_DETERMINERS)
    return phrase(dice, noun, _of_somebody(dice, noun, determiner))


def _of_somebody(dice: Dice, noun: Noun, determiner: Determiner) -> Determiner:
    """A mother is somebody's mother, and a friend mostly somebody's friend."""
    owned = "family" in noun.kinds or ("kin" in noun.kinds and determiner is _D.DEFINITE and dice.chance(0.7))
    return _D.POSSESSED if owned else determiner


def person(dice: Dice, definite: bool = False, *, pronouns: float = 0.34) -> Referent:
    """A human subject: pronoun, name, two of them, or noun."""
    if dice.chance(pronouns):
        return dice.pick(PRONOUNS)
    if dice.chance(0.14):
        return dice.pick(NAMES)
    if dice.chance(0.09):
        return _coordination(dice)
    return subject_phrase(dice, dice.pick(_AGENTS), definite)


def _coordination(dice: Dice) -> Coordination:
    first = dice.pick(NAMES) if dice.chance(0.5) else _partner(dice)
    if dice.chance(0.3):
        return Coordination(first, I)
    second = dice.pick(NAMES) if dice.chance(0.4) else _partner(dice)
    if second is first or (isinstance(first, NounPhrase) and isinstance(second, NounPhrase)):
        second = dice.pick([name for name in NAMES if name is not first])
    return Coordination(first, second)


def _partner(dice: Dice) -> NounPhrase:
    """A person to stand beside another: the teacher, my brother."""
    noun = dice.pick(_AGENTS)
    if "kin" in noun.kinds:
        return NounPhrase(noun, _D.POSSESSED, possessor=dice.pick(_SPEAKERS))
    return NounPhrase(noun)


def object_phrase(dice: Dice, noun: Noun, subject: Nominal, *, specific: bool, negative: bool) -> NounPhrase:
    """A noun phrase that can be an object; quantities stay out of negations, whose scope would be in doubt."""
    weights = _MASS_DETERMINERS if noun.mass else _OBJECT_DETERMINERS
    determiner = dice.draw(_SPECIFIC_DETERMINERS if specific else weights)
    if negative and determiner in (_D.COUNTED, _D.MANY, _D.EVERY):
        determiner = _D.DEFINITE
    return phrase(dice, noun, _of_somebody(dice, noun, determiner), subject)


def other_person(dice: Dice, subject: Nominal) -> Nominal:
    """A person other than the subject, in an oblique place."""
    kind = dice.pick(("pronoun", "name", "noun"))
    if kind == "pronoun":
        return object_pronoun(dice, subject)
    if kind == "name":
        return dice.pick([name for name in NAMES if name is not subject])
    taken = subject.noun if isinstance(subject, NounPhrase) else None
    noun = dice.pick([noun for noun in nouns_of("person") if noun is not taken])
    determiner = _D.POSSESSED if "kin" in noun.kinds else _D.DEFINITE
    return phrase(dice, noun, determiner, subject, plural=dice.chance(0.15))


def object_pronoun(dice: Dice, subject: Nominal) -> Pronoun:
    """A pronoun that cannot mean the subject: no "I see me", "we see me"."""
    taken = agreement(subject)
    fitting = [p for p in PRONOUNS if p.person != taken.person or (p.person == 3 and p is not subject)]
    return dice.pick(fitting)


def locative(dice: Dice, preposition: Preposition, noun: Noun, subject: Nominal | None = None) -> Locative:
    """Build a locative with a definite landmark, sometimes an owned one."""
    determiner = _D.POSSESSED if dice.chance(0.2) else _D.DEFINITE
    return Locative(preposition, phrase(dice, noun, determiner, subject, plural=False))


_INSIDE = nouns_of("place")
_OUTSIDE = nouns_of("outdoors")
_LANDMARKS = nouns_of("landmark")
_NEARNESS = (Preposition.BEHIND, Preposition.IN_FRONT_OF, Preposition.NEAR)


def whereabouts(dice: Dice, noun: Noun | None, subject: Nominal | None = None) -> Locative:
    """Sample a locative that says where a being or thing can be; None stands for a person."""
    kinds = noun.kinds if noun else frozenset(("person",))
    if "portable" in kinds or "food" in kinds or "drink" in kinds:
        if dice.chance(0.6) or "portable" not in kinds:
            preposition = Preposition.ON if dice.chance(0.65) or "portable" not in kinds else Preposition.UNDER
            return locative(dice, preposition, dice.pick(nouns_of("furniture")), subject)
        inside = [other for other in nouns_of("container indoors") if other is not noun]
        return locative(dice, Preposition.IN, dice.pick(inside), subject)
    if "small" in kinds and dice.chance(0.4):
        return locative(dice, dice.pick((Preposition.ON, Preposition.UNDER)), dice.pick(nouns_of("furniture")), subject)
    if dice.chance(0.6):
        return locative(dice, Preposition.IN, dice.pick(_OUTSIDE if "animal" in kinds else _INSIDE), subject)
    return locative(dice, dice.pick(_NEARNESS), dice.pick(_LANDMARKS), subject)
