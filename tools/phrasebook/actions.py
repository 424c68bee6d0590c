"""Random clauses in which somebody does something: statements, questions, commands."""

from __future__ import annotations

from dataclasses import replace

from tools.phrasebook.grammar import (
    Action,
    Clause,
    Determiner,
    Locative,
    Mood,
    Nominal,
    NounPhrase,
    Wh,
    is_definite,
)
from tools.phrasebook.lexicon import (
    COUNTED_TIMES,
    DITRANSITIVE,
    FREQUENCY,
    HABITS,
    INTRANSITIVE,
    MANNER,
    MODALS,
    MOTION,
    SEASONS,
    TIMES,
    TRANSITIVE,
    WHO,
    YOU,
    Adverb,
    Case,
    I,
    Noun,
    Preposition,
    Tense,
    Time,
    Verb,
)
from tools.phrasebook.nominals import (
    Dice,
    Weighted,
    locative,
    nouns_of,
    object_phrase,
    object_pronoun,
    other_person,
    person,
    subject_phrase,
)

_VERBS = Weighted(
    *((verb, 1.0) for verb in TRANSITIVE + DITRANSITIVE),
    *((verb, 0.9) for verb in INTRANSITIVE),
    *((verb, 1.6) for verb in MOTION),
)
_TENSES = Weighted((Tense.PRESENT, 48), (Tense.PAST, 31), (Tense.FUTURE, 21))
_PUNCTUAL_TENSES = Weighted((Tense.PAST, 65), (Tense.FUTURE, 35))
_QUESTIONS = Weighted((Wh.WHO, 26), (Wh.WHAT, 26), (Wh.WHERE, 22), (Wh.WHEN, 13), (Wh.WHY, 13))
_TIMES_OF = {tense: tuple(time for time in TIMES if tense in time.tenses) for tense in Tense}
_COUNTED_TIMES_OF = {tense: tuple(time for time in COUNTED_TIMES if tense in time.tenses) for tense in Tense}

_COMMON_SITES = "house garden park kitchen room school street village hotel restaurant"
_WILD_SITES = "garden park forest farm"


def _tense(dice: Dice, verb: Verb) -> Tense:
    return dice.draw(_PUNCTUAL_TENSES if verb.punctual else _TENSES)


def _agent(dice: Dice, kinds: str) -> Nominal:
    """Somebody who can do it."""
    if kinds == "person":
        return person(dice)
    if kinds == "animate" and dice.chance(0.6):
        return person(dice)
    return subject_phrase(dice, dice.pick(nouns_of("animal" if kinds == "animate" else kinds)))


def _object(dice: Dice, verb: Verb, subject: Nominal, negative: bool) -> Nominal | None:
    if not verb.objects:
        return None
    if "person" in verb.objects and dice.chance(0.35):
        return object_pronoun(dice, subject)
    noun = dice.pick([noun for noun in nouns_of(verb.objects) if noun is not _head(subject)])
    if "person" in noun.kinds and dice.chance(0.2):
        return other_person(dice, subject)
    if verb.generic and "person" not in noun.kinds and "place" not in noun.kinds and dice.chance(0.4):
        return NounPhrase(noun, Determiner.GENERIC, plural=not noun.mass)
    specific = verb.specific or ("person" in noun.kinds and verb.case is Case.ACCUSATIVE)
    return object_phrase(dice, noun, subject, specific=specific, negative=negative)


def _head(nominal: Nominal) -> Noun | None:
    return nominal.noun if isinstance(nominal, NounPhrase) else None


def _is_animal(nominal: Nominal) -> bool:
    return isinstance(nominal, NounPhrase) and "animal" in nominal.noun.kinds


def _goal(dice: Dice, preposition: Preposition, subject: Nominal) -> Locative:
    goals = nouns_of("goal")
    if _is_animal(subject):
        goals = tuple(noun for noun in goals if "outdoors" in noun.kinds)
    return locative(dice, preposition, dice.pick(goals), subject)


def _locative(dice: Dice, verb: Verb, subject: Nominal) -> Locative:
    """Where one does this; sometimes near, behind or under something."""
    if not verb.objects and dice.chance(0.3):
        if dice.chance(0.3):
            return locative(dice, Preposition.UNDER, dice.pick(nouns_of("shade")), subject)
        nearness = (Preposition.NEAR, Preposition.BEHIND, Preposition.IN_FRONT_OF)
        return locative(dice, dice.pick(nearness), dice.pick(nouns_of("landmark")), subject)
    allowed = (_WILD_SITES if _is_animal(subject) else verb.sites or _COMMON_SITES).split()
    nouns = [noun for noun in nouns_of("place") if noun.english in allowed]
    return locative(dice, Preposition.IN, dice.pick(nouns), subject)


def _body(dice: Dice, verb: Verb, subject: Nominal, negative: bool) -> Action:
    """The verb with its obligatory arguments."""
    return Action(
        verb,
        object=_object(dice, verb, subject, negative),
        recipient=other_person(dice, subject) if verb.recipients else None,
        locative=_goal(dice, verb.goal, subject) if verb.goal is not None else None,
    )


def _when(dice: Dice, tense: Tense) -> Time:
    counted = _COUNTED_TIMES_OF[tense]
    return dice.pick(counted if counted and dice.chance(0.3) else _TIMES_OF[tense])


def _is_ambiguous(verb: Verb) -> bool:
    """read, read: the simple present could be the past."""
    return verb.english == verb.english_past


def _negatable(subject: Nominal) -> bool:
    """A negation over "every" or an indefinite subject would be ambiguous."""
    every = isinstance(subject, NounPhrase) and subject.determiner is Determiner.EVERY
    return is_definite(subject) and not every


def action(dice: Dice) -> Clause:
    """A statement or a yes-no question about what somebody does."""
    verb = dice.draw(_VERBS)
    subject = _agent(dice, verb.subjects)
    negative = _negatable(subject) and dice.chance(0.2)
    mood = Mood.QUESTION if _negatable(subject) and dice.chance(0.16) else Mood.STATEMENT
    if mood is Mood.QUESTION and subject is I:
        subject = YOU
    clause = Clause(
        subject, _body(dice, verb, subject, negative), _tense(dice, verb), mood, negative, contracted=dice.chance(0.4)
    )
    return _embellish(dice, clause)


def _embellish(dice: Dice, clause: Clause) -> Clause:
    """Add a modal, a habit, an adverb, a place, a companion or a time, at most two of them."""
    body = clause.predicate
    assert isinstance(body, Action)
    verb, simple = body.verb, clause.tense is Tense.PRESENT and not body.verb.stative
    if not verb.stative and not verb.punctual and dice.chance(0.12):
        return _with_modal(dice, clause)
    if simple and not _is_ambiguous(verb) and dice.chance(0.3):
        return _habit(dice, clause)
    body = _circumstance(dice, body, clause.subject)
    clause = replace(clause, predicate=body)
    if verb.stative or not dice.chance(0.3):
        return clause
    first = clause.mood is Mood.STATEMENT and dice.chance(0.3)
    return replace(clause, time=_when(dice, clause.tense), time_first=first)


def _circumstance(dice: Dice, body: Action, subject: Nominal) -> Action:
    """A place, a companion or a manner, or nothing."""
    verb = body.verb
    if not verb.placeless and not verb.recipients and dice.chance(0.12 if verb.objects else 0.4):
        return replace(body, locative=_locative(dice, verb, subject))
    if verb.sociable and dice.chance(0.2):
        return replace(body, companion=other_person(dice, subject))
    if verb.manner and dice.chance(0.15):
        return replace(body, adverb=_manner(dice, verb))
    return body


def _manner(dice: Dice, verb: Verb) -> Adverb:
    quiet = verb.english in ("sing", "work", "study", "play", "read", "open", "close")
    return MANNER[2] if quiet else dice.pick(MANNER[:2])


def _with_modal(dice: Dice, clause: Clause) -> Clause:
    assert isinstance(clause.predicate, Action)
    verb = clause.predicate.verb
    # One starts an activity that lasts, not a single act; and "is not starting to" is hardly ever said.
    lasting = verb.manner or not (verb.objects or verb.goal)
    modal = dice.pick(MODALS if lasting else MODALS[:-1])
    negative = clause.negative and modal.verb.english != "start"
    return replace(clause, predicate=replace(clause.predicate, modal=modal), negative=negative)


def _habit(dice: Dice, clause: Clause) -> Clause:
    """The simple present: often, always, never, every day."""
    assert isinstance(clause.predicate, Action)
    if dice.chance(0.45):
        time = dice.pick(HABITS if clause.predicate.verb.objects else HABITS + SEASONS)
        return replace(clause, predicate=replace(clause.predicate, habitual=True), time=time)
    plain = not clause.negative and clause.mood is Mood.STATEMENT and _negatable(clause.subject)
    adverb = dice.pick(FREQUENCY if plain else FREQUENCY[:2])
    return replace(clause, predicate=replace(clause.predicate, habitual=True, adverb=adverb))


def question_about_action(dice: Dice) -> Clause:
    """Who, what, where, when and why."""
    wh = dice.draw(_QUESTIONS)
    if wh is Wh.WHO:
        return _who(dice)
    if wh is Wh.WHAT:
        verb = dice.pick([verb for verb in TRANSITIVE if "person" not in verb.objects and not verb.specific])
        subject = _asked(dice, verb)
        return Clause(subject, Action(verb), _tense(dice, verb), Mood.QUESTION, wh=wh)
    if wh is Wh.WHERE:
        return _where(dice)
    verb = dice.draw(_VERBS)
    while verb.stative or (wh is Wh.WHY and verb.recipients):
        verb = dice.draw(_VERBS)
    subject = _asked(dice, verb)
    tense = dice.draw(_PUNCTUAL_TENSES) if wh is Wh.WHEN else _tense(dice, verb)
    negative = wh is Wh.WHY and dice.chance(0.25)
    body = _body(dice, verb, subject, negative)
    return Clause(subject, body, tense, Mood.QUESTION, negative, dice.chance(0.4), wh)


def _asked(dice: Dice, verb: Verb) -> Nominal:
    """The subject of a question: not I, and somebody definite."""
    subject = _agent(dice, verb.subjects)
    if subject is I:
        return YOU
    if isinstance(subject, NounPhrase) and not _negatable(subject):
        return replace(subject, determiner=Determiner.DEFINITE)
    return subject


def _who(dice: Dice) -> Clause:
    verb = dice.draw(_VERBS)
    while "bird" in verb.subjects:
        verb = dice.draw(_VERBS)
    body = _circumstance(dice, _body(dice, verb, WHO, negative=False), WHO)
    return Clause(WHO, body, _tense(dice, verb), Mood.QUESTION, wh=Wh.WHO)


def _where(dice: Dice) -> Clause:
    verb = dice.pick([v for v in INTRANSITIVE + MOTION + MOTION if v.goal is not None or not v.placeless])
    subject = _asked(dice, verb)
    wh = Wh.WHERE
    if verb.goal is not None:
        wh = Wh.WHERE_FROM if verb.goal is Preposition.FROM else Wh.WHERE_TO
    return Clause(subject, Action(verb), _tense(dice, verb), Mood.QUESTION, wh=wh)


def command(dice: Dice) -> Clause:
    """Open the door! Please do not look at me."""
    verb = dice.draw(_VERBS)
    while verb.stative or verb.punctual or verb.subjects == "bird":
        verb = dice.draw(_VERBS)
    negative = dice.chance(0.25)
    mood = Mood.REQUEST if dice.chance(0.45) else Mood.COMMAND
    body = _body(dice, verb, YOU, negative)
    if not (verb.objects or verb.goal):
        body = _circumstance(dice, body, YOU)
    return Clause(YOU, body, Tense.PRESENT, mood, negative, contracted=dice.chance(0.4))
