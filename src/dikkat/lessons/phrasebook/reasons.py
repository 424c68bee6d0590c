"""Random sentences with "because": a state and its reason, or an "it" that may mean either of two things.

The animal didn't cross the street because it was too tired, or too wide: what is said of it tells which is meant, and
so its translation; French says il or elle, Turkish nothing or the noun once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dikkat.lessons.phrasebook.dice import Dice, Weighted
from dikkat.lessons.phrasebook.entries import Noun, Tense, Verb
from dikkat.lessons.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Degree,
    Determiner,
    Locative,
    Quality,
    Reason,
    Referent,
)
from dikkat.lessons.phrasebook.lexicon import ADJECTIVES, FIT, VERBS
from dikkat.lessons.phrasebook.nominals import locative, nouns_of, object_phrase, person, phrase, subject_phrase

_ADJECTIVES = {adjective.english: adjective for adjective in ADJECTIVES}
_VERBS = {verb.english: verb for verb in VERBS}

# State, verb, tense of the verb, negative, whether animals do it too.
_CAUSES = (
    ("tired", "work", Tense.PAST, False, False),
    ("tired", "dance", Tense.PAST, False, False),
    ("tired", "study", Tense.PAST, False, False),
    ("tired", "run", Tense.PAST, False, True),
    ("tired", "walk", Tense.PAST, False, True),
    ("tired", "sleep", Tense.PAST, True, True),
    ("sad", "lose", Tense.PAST, False, False),
    ("sad", "break", Tense.PAST, False, False),
    ("happy", "find", Tense.PAST, False, False),
    ("happy", "buy", Tense.PAST, False, False),
    ("happy", "go", Tense.FUTURE, False, False),
    ("happy", "travel", Tense.FUTURE, False, False),
    ("busy", "clean", Tense.PRESENT, False, False),
    ("busy", "repair", Tense.PRESENT, False, False),
    ("busy", "cook", Tense.PRESENT, False, False),
    ("busy", "write", Tense.PRESENT, False, False),
)


def reason(dice: Dice) -> Reason:
    """The girls are tired because they did not sleep."""
    state, verb_name, tense, negative, animals = dice.pick(_CAUSES)
    subject: Referent
    if animals and dice.chance(0.45):
        subject = subject_phrase(dice, dice.pick(nouns_of("animal")), definite=True)
    else:
        subject = person(dice, definite=True, pronouns=0.2)
    verb = _VERBS[verb_name]
    thing = goal = None
    if verb.objects:
        noun = dice.pick(nouns_of(verb.objects))
        thing = object_phrase(dice, noun, subject, specific=True, negative=negative)
    if verb.goal is not None:
        goal = locative(dice, verb.goal, dice.pick(nouns_of("goal")), subject)
    result = Clause(subject, Quality(_ADJECTIVES[state]), Tense.PRESENT)
    body = Action(verb, object=thing, locative=goal)
    cause = Clause(Anaphor(subject), body, tense, negative=negative, contracted=dice.chance(0.4))
    return Reason(result, cause)


_DETERMINERS = Weighted((Determiner.DEFINITE, 84), (Determiner.THIS, 8), (Determiner.THAT, 8))
_TENSES = Weighted((Tense.PAST, 80), (Tense.PRESENT, 20))
_OTHER_GENDER = 0.7
"""Share of the sentences for which nouns of two French genders are looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """What did not happen between two things, and what of either is a reason for it: no adjective stands on both sides.

    `subjects` and `others` are kinds of nouns, or nouns.
    """

    verb: Verb
    subjects: str
    others: str
    of_subject: tuple[str, ...]
    of_other: tuple[str, ...]


_FRAMES = (
    _Frame(
        _VERBS["cross"], "animal", "crossed",
        ("tired", "sick", "lazy", "old", "small"), ("wide", "long", "narrow", "dangerous", "dirty"),
    ),
    _Frame(
        _VERBS["carry"], "dog horse cow bear elephant animal", "furniture portable",
        ("tired", "sick", "lazy", "old"), ("heavy", "big", "dirty", "expensive"),
    ),
    _Frame(_VERBS["eat"], "animal", "food", ("tired", "sick", "sad", "lazy"), ("cold", "warm", "bad", "old", "big")),
    _Frame(
        _VERBS["follow"], "animal", "animal",
        ("tired", "sick", "lazy", "old"), ("fast", "dangerous", "strong", "big"),
    ),
    _Frame(FIT, "portable", "container", ("big", "long", "wide"), ("small", "narrow")),
)  # fmt: skip


@cache
def _nouns(named: str) -> tuple[Noun, ...]:
    """Nouns by their kind, or by their names."""
    names = set(named.split())
    by_name = tuple(noun for noun in nouns_of("animal") if noun.english in names)
    return by_name if len(by_name) > 1 else nouns_of(named)


def _other(dice: Dice, nouns: tuple[Noun, ...], subject: Noun) -> Noun:
    fitting = [noun for noun in nouns if noun is not subject]
    other_genders = [noun for noun in fitting if noun.gender != subject.gender]
    return dice.pick(other_genders if other_genders and dice.chance(_OTHER_GENDER) else fitting)


def referent(dice: Dice) -> Reason:
    """The animal didn't cross the street because it was too tired. The cup didn't fit in the box because it was big."""
    frame = dice.pick(_FRAMES)
    noun = dice.pick(_nouns(frame.subjects))
    subject = phrase(dice, noun, dice.draw(_DETERMINERS), plural=False)
    other = phrase(dice, _other(dice, _nouns(frame.others), noun), dice.draw(_DETERMINERS), plural=False)
    if frame.verb.goal is None:
        action = Action(frame.verb, object=other)
    else:
        action = Action(frame.verb, locative=Locative(frame.verb.goal, other))
    of_subject = dice.chance(0.5)
    adjective = _ADJECTIVES[dice.pick(frame.of_subject if of_subject else frame.of_other)]
    tense = dice.draw(_TENSES)
    result = Clause(subject, action, tense, negative=True, contracted=dice.chance(0.6))
    degree = Degree.TOO if dice.chance(0.85) else Degree.VERY
    cause = Clause(Anaphor(subject if of_subject else other, of_subject), Quality(adjective, degree), tense)
    return Reason(result, cause)
