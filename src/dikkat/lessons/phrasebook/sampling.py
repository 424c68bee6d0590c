"""Random abstract sentences: which constructions occur, how often, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from dikkat.lessons.phrasebook.actions import action, command, question_about_action
from dikkat.lessons.phrasebook.dice import Dice, Weighted
from dikkat.lessons.phrasebook.english_forms import comparative
from dikkat.lessons.phrasebook.entries import Adjective, Noun, Tense
from dikkat.lessons.phrasebook.grammar import (
    Clause,
    Comparison,
    Degree,
    Determiner,
    Existence,
    Location,
    Mood,
    Nominal,
    NounPhrase,
    Possession,
    Quality,
    Sentence,
    Wh,
    is_definite,
)
from dikkat.lessons.phrasebook.lexicon import ADJECTIVES, ANIMALS, DRINKS, FOOD, PEOPLE, SITES, THINGS, TIMES, WHO
from dikkat.lessons.phrasebook.nominals import (
    nouns_of,
    other_person,
    ownable,
    person,
    phrase,
    subject_phrase,
    whereabouts,
)
from dikkat.lessons.phrasebook.reasons import reason, referent

_GROUPS = (PEOPLE, ANIMALS, FOOD + DRINKS, THINGS, SITES)
_GRADABLE = tuple(adjective for adjective in ADJECTIVES if adjective.gradable)
_STATE_TIMES = tuple(time for time in TIMES if time.english in ("yesterday", "today", "now", "tomorrow"))
_TENSES = Weighted((Tense.PRESENT, 60), (Tense.PAST, 27), (Tense.FUTURE, 13))
_STATIC_TENSES = Weighted((Tense.PRESENT, 70), (Tense.PAST, 30))
_HOLDINGS = Weighted((Determiner.INDEFINITE, 60), (Determiner.COUNTED, 28), (Determiner.MANY, 12))


def _polarity(dice: Dice, clause: Clause) -> Clause:
    """Negate and question a statement by chance; a negation over an indefinite subject would be ambiguous."""
    negative = dice.chance(0.22) and is_definite(clause.subject) and not _is_every(clause.subject)
    mood = Mood.QUESTION if dice.chance(0.18) else Mood.STATEMENT
    return replace(clause, negative=negative, mood=mood, contracted=dice.chance(0.4))


def _is_every(nominal: Nominal) -> bool:
    return isinstance(nominal, NounPhrase) and nominal.determiner is Determiner.EVERY


@cache
def _nouns_with(adjective: Adjective, group: int) -> tuple[Noun, ...]:
    return tuple(noun for noun in _GROUPS[group] if adjective.kinds & noun.kinds)


@cache
def _groups_with(adjective: Adjective) -> tuple[int, ...]:
    return tuple(group for group in range(len(_GROUPS)) if len(_nouns_with(adjective, group)) > 1)


def _bearer(dice: Dice, adjective: Adjective, group: int) -> Nominal:
    """Somebody or something that can be so."""
    if group == 0 and "person" in adjective.kinds:
        return person(dice, definite=True)
    phrase = subject_phrase(dice, dice.pick(_nouns_with(adjective, group)), definite=True)
    return replace(phrase, adjectives=())


def quality(dice: Dice) -> Clause:
    """The house is big. She was very tired yesterday."""
    adjective = dice.pick(ADJECTIVES)
    groups = _groups_with(adjective) or (0,)
    subject = _bearer(dice, adjective, dice.pick(groups))
    if isinstance(subject, NounPhrase):
        subject = replace(subject, adjectives=())
    tense = dice.draw(_TENSES if adjective.state else _STATIC_TENSES)
    degree = Degree.VERY if adjective.gradable and dice.chance(0.2) else Degree.PLAIN
    clause = _polarity(dice, Clause(subject, Quality(adjective, degree), tense))
    if not adjective.state or not dice.chance(0.3):
        return clause
    time = dice.pick([time for time in _STATE_TIMES if tense in time.tenses])
    return replace(clause, time=time, time_first=clause.mood is Mood.STATEMENT and dice.chance(0.3))


def comparison(dice: Dice) -> Clause:
    """The cat is smaller than the dog."""
    adjective = dice.pick(_GRADABLE)
    group = dice.pick(_groups_with(adjective))
    subject = _bearer(dice, adjective, group)
    if group == 0:
        standard = other_person(dice, subject)
    else:
        assert isinstance(subject, NounPhrase)
        nouns = [noun for noun in _nouns_with(adjective, group) if noun is not subject.noun]
        standard = phrase(dice, dice.pick(nouns), Determiner.DEFINITE, subject, plural=subject.plural)
    if isinstance(standard, NounPhrase):
        standard = replace(standard, adjectives=(), number=None)
    # English has "less interesting" but hardly "less big".
    degrees = (1, 1, 1, 0, -1) if comparative(adjective.english).startswith("more ") else (1, 1, 1, 0)
    clause = Clause(subject, Comparison(adjective, dice.pick(degrees), standard), dice.draw(_STATIC_TENSES))
    return _polarity(dice, clause)


def location(dice: Dice) -> Clause:
    """The key is under the table. Where is the cat?"""
    if dice.chance(0.4):
        subject, noun = person(dice, definite=True), None
    else:
        noun = dice.pick(nouns_of("animal portable"))
        subject = subject_phrase(dice, noun, definite=True)
    tense = dice.draw(_TENSES)
    if dice.chance(0.25):
        return Clause(subject, Location(None), tense, Mood.QUESTION, wh=Wh.WHERE)
    return _polarity(dice, Clause(subject, Location(whereabouts(dice, noun, subject)), tense))


def possession(dice: Dice) -> Clause:
    """The girl has three books. How many sisters do you have?"""
    subject = WHO if dice.chance(0.05) else person(dice, definite=True)
    nouns = [noun for noun in nouns_of("portable animal kin mass goal repairable") if _holdable(noun)]
    noun = dice.pick(nouns)
    tense = dice.draw(Weighted((Tense.PRESENT, 75), (Tense.PAST, 20), (Tense.FUTURE, 5)))
    if subject is WHO:
        thing = phrase(dice, noun, Determiner.INDEFINITE)
        return Clause(subject, Possession(thing), tense, Mood.QUESTION, wh=Wh.WHO)
    if dice.chance(0.15) and not noun.mass:
        thing = NounPhrase(noun, Determiner.HOW_MANY, plural=True)
        return Clause(subject, Possession(thing), tense, Mood.QUESTION, wh=Wh.HOW_MANY)
    clause = _polarity(dice, Clause(subject, Possession(NounPhrase(noun)), tense))
    thing = phrase(dice, noun, _quantity(dice, noun, clause.negative))
    return replace(clause, predicate=Possession(thing))


def _holdable(noun: Noun) -> bool:
    return noun.mass or (ownable(noun) and noun.english not in ("mother", "father"))


def _quantity(dice: Dice, noun: Noun, negative: bool) -> Determiner:
    return Determiner.INDEFINITE if negative or noun.mass else dice.draw(_HOLDINGS)


def existence(dice: Dice) -> Existence:
    """There are three birds in the garden."""
    noun = dice.pick(nouns_of("portable animal person mass"))
    if "kin" in noun.kinds:
        noun = dice.pick(ANIMALS)
    mood = Mood.QUESTION if dice.chance(0.22) else Mood.STATEMENT
    negative = mood is Mood.STATEMENT and dice.chance(0.2)
    thing = phrase(dice, noun, _quantity(dice, noun, negative))
    return Existence(thing, whereabouts(dice, noun), dice.draw(_TENSES), mood, negative)


_CONSTRUCTIONS: Weighted[Callable[[Dice], Sentence]] = Weighted(
    (action, 47), (question_about_action, 9), (command, 7), (quality, 11), (comparison, 6), (location, 7),
    (possession, 6), (existence, 4), (reason, 3), (referent, 16),
)  # fmt: skip


def sample(dice: Dice) -> Sentence:
    """One random sentence."""
    return dice.draw(_CONSTRUCTIONS)(dice)
