"""The pronoun of an English sentence with "because", and the noun that it means, as the words of the sentence."""

from __future__ import annotations

from typing import NamedTuple

from dikkat.phrasebook.english import english, nominal
from dikkat.phrasebook.grammar import Anaphor, NounPhrase, Reason, Sentence


class Link(NamedTuple):
    """Two words of one text, counted from 0: the word of `row` means that of `column`."""

    row: int
    column: int


def pronoun_link(sentence: Sentence) -> Link | None:
    """Return where the pronoun after "because" stands in the English text, and the noun that it means.

    None for a sentence without "because", and where a name, a pronoun or two persons are meant.
    """
    if not isinstance(sentence, Reason) or not isinstance(sentence.cause.subject, Anaphor):
        return None
    antecedent = sentence.cause.subject.antecedent
    if not isinstance(antecedent, NounPhrase):
        return None
    words = english(sentence).lower().split()
    # the noun is the last word of its phrase, and no other noun of the sentence is the same
    return Link(words.index("because") + 1, words.index(nominal(antecedent).split()[-1].lower()))
