"""Random abstract sentences: which constructions occur, how often, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tools.phrasebook.actions import action, command, question_about_action
from tools.phrasebook.english import comparative
from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Degree,
    Determiner,
    Existence,
    Location,
    Locative,
    Mood,
    Nominal,
    NounPhrase,
    Possession,
    Quality,
    Reason,
    Referent,
    Sentence,
    Wh,
    is_definite,
)
from tools.phrasebook.lexicon import (
    ADJECTIVES,
    ANIMALS,
    DRINKS,
    FIT,
    FOOD,
    PEOPLE,
    SITES,
    THINGS,
    TIMES,
    VERBS,
    WHO,
    Adjective,
    Noun,
    Tense,
    Verb,
)
from tools.phrasebook.nominals import (
    Dice,
    Weighted,
    locative,
    nouns_of,
    object_phrase,
    other_person,
    ownable,
    person,
    phrase,
    subject_phrase,
    whereabouts,
)

# Random sentences with "because": a state and its reason, or an "it" that may mean either of two things.
#
# The animal didn't cross the street because it was too tired, or too wide: what is said of it tells which is meant, and
# so its translation; French says il or elle, Turkish nothing or the noun once more.

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


_GROUPS = (PEOPLE, ANIMALS, FOOD + DRINKS, THINGS, SITES)
_GRADABLE = tuple(adjective for adjective in ADJECTIVES if adjective.gradable)
_STATE_TIMES = tuple(time for time in TIMES if time.english in ("yesterday", "today", "now", "tomorrow"))
_SENTENCE_TENSES = Weighted((Tense.PRESENT, 60), (Tense.PAST, 27), (Tense.FUTURE, 13))
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
    tense = dice.draw(_SENTENCE_TENSES if adjective.state else _STATIC_TENSES)
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
    tense = dice.draw(_SENTENCE_TENSES)
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
    return Existence(thing, whereabouts(dice, noun), dice.draw(_SENTENCE_TENSES), mood, negative)


_CONSTRUCTIONS: Weighted[Callable[[Dice], Sentence]] = Weighted(
    (action, 47), (question_about_action, 9), (command, 7), (quality, 11), (comparison, 6), (location, 7),
    (possession, 6), (existence, 4), (reason, 3), (referent, 16),
)  # fmt: skip


def sample(dice: Dice) -> Sentence:
    """One random sentence."""
    return dice.draw(_CONSTRUCTIONS)(dice)
