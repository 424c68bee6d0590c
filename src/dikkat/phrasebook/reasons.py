"""Random sentences with "because", whose second subject is a pronoun that agrees with the first (elles, il, elle)."""

from __future__ import annotations

from dikkat.phrasebook.dice import Dice
from dikkat.phrasebook.entries import Tense
from dikkat.phrasebook.grammar import Action, Anaphor, Clause, Quality, Reason, Referent
from dikkat.phrasebook.lexicon import ADJECTIVES, VERBS
from dikkat.phrasebook.nominals import locative, nouns_of, object_phrase, person, subject_phrase

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
