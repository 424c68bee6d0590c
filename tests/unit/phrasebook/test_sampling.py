"""What random sentences may not say: combinations that make no sense or whose meaning English leaves open."""

from __future__ import annotations

from collections import Counter

import pytest
from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Determiner,
    Existence,
    Location,
    Mood,
    NounPhrase,
    Possession,
    Quality,
    Reason,
    Sentence,
    agreement,
    is_definite,
)
from tools.phrasebook.lexicon import WHO, Pronoun, Tense
from tools.phrasebook.nominals import Dice, Weighted
from tools.phrasebook.sampling import sample


def _sentences(count: int = 15_000) -> list[Sentence]:
    dice = Dice(21)
    return [sample(dice) for _ in range(count)]


SENTENCES = _sentences()
CLAUSES = [sentence for sentence in SENTENCES if isinstance(sentence, Clause)]
ACTIONS = [(clause, clause.predicate) for clause in CLAUSES if isinstance(clause.predicate, Action)]


def test_every_construction_occurs_often_enough_to_be_learnt() -> None:
    kinds = Counter(type(s.predicate if isinstance(s, Clause) else s) for s in SENTENCES)
    for kind in (Action, Quality, Comparison, Location, Possession, Existence, Reason):
        assert kinds[kind] > 0.015 * len(SENTENCES), kind
    moods = Counter(clause.mood for clause in CLAUSES)
    assert all(moods[mood] > 200 for mood in Mood)
    assert all(sum(clause.tense is tense for clause in CLAUSES) > 1000 for tense in Tense)
    assert sum(clause.negative for clause in CLAUSES) > 1500


def test_verbs_get_subjects_and_objects_of_their_kinds() -> None:
    for clause, action in ACTIONS:
        if isinstance(clause.subject, NounPhrase):
            wanted = set(action.verb.subjects.replace("animate", "person animal").split())
            assert clause.subject.noun.kinds & wanted
        if isinstance(action.object, NounPhrase):
            assert action.object.noun.kinds & set(action.verb.objects.split())


def test_adjectives_fit_their_nouns() -> None:
    for _, action in ACTIONS:
        if isinstance(action.object, NounPhrase):
            assert all(adjective.kinds & action.object.noun.kinds for adjective in action.object.adjectives)


def test_nobody_acts_on_himself_in_the_first_or_second_person() -> None:
    for clause, action in ACTIONS:
        for other in (action.object, action.recipient, action.companion):
            if isinstance(other, Pronoun) and other.person < 3:
                assert other.person != agreement(clause.subject).person


def test_a_third_person_owner_beside_a_third_person_subject_is_that_subject() -> None:
    owned = 0
    for clause, action in ACTIONS:
        thing = action.object
        if not isinstance(thing, NounPhrase) or not isinstance(thing.possessor, Pronoun) or thing.possessor.person < 3:
            continue
        owned += 1
        subject = agreement(clause.subject)
        assert thing.reflexive == (subject.person == 3)
        if thing.reflexive:
            assert clause.subject is not WHO
            assert thing.possessor.plural == subject.plural
    assert owned > 50


def test_negation_never_meets_an_indefinite_subject_or_a_quantity() -> None:
    for clause, action in ACTIONS:
        if not clause.negative:
            continue
        assert clause.subject is WHO or is_definite(clause.subject)
        if isinstance(action.object, NounPhrase):
            assert action.object.determiner not in (Determiner.COUNTED, Determiner.MANY, Determiner.EVERY)


def test_mass_nouns_are_never_plural_or_counted() -> None:
    for _, action in ACTIONS:
        if isinstance(action.object, NounPhrase) and action.object.noun.mass:
            assert not action.object.plural
            assert action.object.number is None


def test_time_agrees_with_tense() -> None:
    timed = [clause for clause in CLAUSES if clause.time is not None]
    assert len(timed) > 1000
    assert all(clause.tense in clause.time.tenses for clause in timed if clause.time)


def test_draw_follows_its_weights() -> None:
    dice = Dice(1)
    counts = Counter(dice.draw(Weighted(("a", 3.0), ("b", 1.0), ("never", 0.0))) for _ in range(4000))
    assert counts["a"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts["never"] == 0


@pytest.mark.seed("D6")
def test_a_pronoun_has_two_nouns_that_it_could_mean_and_its_adjective_tells_which() -> None:
    result = [item for item in SENTENCES if isinstance(item, Reason) and isinstance(item.result.predicate, Action)]
    assert len(result) > 0.1 * len(SENTENCES)
    pair: dict[tuple[str, str], set[bool]] = {}
    separate = 0
    for item in result:
        subject, predicate, anaphor = item.result.subject, item.result.predicate, item.cause.subject
        assert isinstance(predicate, Action)
        assert isinstance(anaphor, Anaphor)
        assert isinstance(item.cause.predicate, Quality)
        other = predicate.object or (predicate.locative and predicate.locative.landmark)
        assert isinstance(subject, NounPhrase)
        assert isinstance(other, NounPhrase)
        assert subject.noun is not other.noun
        assert anaphor.antecedent is (subject if anaphor.of_subject else other)
        pair.setdefault((predicate.verb.english, item.cause.predicate.adjective.english), set()).add(anaphor.of_subject)
        separate += subject.noun.gender != other.noun.gender
    assert all(len(side) == 1 for side in pair.values())
    assert {next(iter(side)) for side in pair.values()} == {True, False}
    assert separate > 0.5 * len(result)
