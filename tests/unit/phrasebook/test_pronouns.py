"""The pronoun of a sentence with "because" and the noun that it means, as words of the English text."""

from __future__ import annotations

import pytest
from tests.unit.phrasebook.crossing import crossing
from tools.phrasebook.english import english
from tools.phrasebook.generate import phrasebook_split, pronoun_link
from tools.phrasebook.grammar import Anaphor, NounPhrase, Reason
from tools.phrasebook.nominals import Dice
from tools.phrasebook.sampling import sample


@pytest.mark.parametrize(("of_subject", "adjective", "noun"), [(True, "tired", "animal"), (False, "wide", "street")])
def test_it_is_linked_to_the_noun_that_its_adjective_tells(of_subject: bool, adjective: str, noun: str) -> None:
    sentence = crossing(of_subject, adjective)
    words, link = english(sentence).split(), pronoun_link(sentence)
    assert link is not None
    assert (words[link.row], words[link.column]) == ("it", noun)


def test_every_pronoun_that_means_a_noun_is_linked_to_it() -> None:
    dice, pronouns = Dice(3), dict[str, int]()
    for _ in range(4000):
        sentence = sample(dice)
        link, words = pronoun_link(sentence), english(sentence).lower().split()
        anaphor = sentence.cause.subject if isinstance(sentence, Reason) else None
        if not isinstance(anaphor, Anaphor) or not isinstance(anaphor.antecedent, NounPhrase):
            assert link is None
            continue
        assert link is not None
        noun = anaphor.antecedent.noun
        forms = {noun.english, noun.english + "s", noun.english + "es", noun.english_plural, noun.english[:-1] + "ies"}
        assert words[link.column] in forms
        assert words.count(words[link.column]) == 1
        pronouns[words[link.row]] = pronouns.get(words[link.row], 0) + 1
    assert pronouns.keys() == {"it", "he", "she", "they"}
    assert pronouns["it"] > 400


def test_the_split_carries_links_of_english_sources_alone() -> None:
    english_first, turkish_first = (phrasebook_split(pair, 300, 10, 10) for pair in ("en-fr", "tr-en"))
    linked = [phrase for phrase in english_first.train if phrase.link is not None]
    assert 20 < len(linked) < 100
    assert all(phrase.source.split()[phrase.link.row - 1] == "because" for phrase in linked if phrase.link)
    assert all(phrase.link is None for phrase in turkish_first.train)
