"""The sentence whose pronoun may mean either of two nouns."""

from __future__ import annotations

from tools.phrasebook.grammar import Action, Anaphor, Clause, Degree, NounPhrase, Quality, Reason
from tools.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Tense


def crossing(of_subject: bool, adjective: str) -> Reason:
    """The animal didn't cross the street because it was too …, which is said of the animal or of the street."""
    animal, street = (NounPhrase(next(noun for noun in NOUNS if noun.english == word)) for word in ("animal", "street"))
    verb = next(verb for verb in VERBS if verb.english == "cross")
    quality = Quality(next(item for item in ADJECTIVES if item.english == adjective), Degree.TOO)
    result = Clause(animal, Action(verb, object=street), Tense.PAST, negative=True, contracted=True)
    return Reason(result, Clause(Anaphor(animal if of_subject else street, of_subject), quality, Tense.PAST))
