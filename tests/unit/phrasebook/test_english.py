"""English sentences: auxiliaries, negation and contraction, word order of questions, articles and possessives."""

from __future__ import annotations

import pytest
from tests.unit.phrasebook.crossing import crossing
from tools.phrasebook.english import english
from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Coordination,
    Degree,
    Determiner,
    Existence,
    Location,
    Locative,
    Mood,
    NounPhrase,
    Possession,
    Quality,
    Reason,
    Wh,
)
from tools.phrasebook.lexicon import (
    ADJECTIVES,
    FREQUENCY,
    HE,
    MODALS,
    NAMES,
    NOUNS,
    NUMBERS,
    SHE,
    THEY,
    TIMES,
    VERBS,
    WE,
    WHO,
    YOU,
    Adjective,
    I,
    Name,
    Noun,
    Preposition,
    Tense,
    Verb,
)

PRESENT, PAST, FUTURE = Tense
Q, COMMAND = Mood.QUESTION, Mood.COMMAND


def noun(english: str) -> Noun:
    return next(entry for entry in NOUNS if entry.english == english)


def verb(english: str) -> Verb:
    return next(entry for entry in VERBS if entry.english == english)


def adjective(english: str) -> Adjective:
    return next(entry for entry in ADJECTIVES if entry.english == english)


def the(english: str, *adjectives: str, plural: bool = False) -> NounPhrase:
    return NounPhrase(noun(english), plural=plural, adjectives=tuple(adjective(word) for word in adjectives))


def some(english: str, *adjectives: str, plural: bool = False) -> NounPhrase:
    words = tuple(adjective(word) for word in adjectives)
    return NounPhrase(noun(english), Determiner.INDEFINITE, plural, words)


def mine(english: str, *adjectives: str, plural: bool = False) -> NounPhrase:
    words = tuple(adjective(word) for word in adjectives)
    return NounPhrase(noun(english), Determiner.POSSESSED, plural, words, possessor=I)


ANNA: Name = next(name for name in NAMES if name.text == "Anna")
TOM: Name = next(name for name in NAMES if name.text == "Tom")


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(the("cat"), Action(verb("eat"), object=some("apple")), PRESENT), "The cat is eating an apple."),
        (
            Clause(the("cat"), Action(verb("eat"), object=some("apple"), habitual=True, adverb=FREQUENCY[0]), PRESENT),
            "The cat often eats an apple.",
        ),
        (Clause(I, Action(verb("sleep")), PRESENT, negative=True, contracted=True), "I am not sleeping."),
        (Clause(HE, Action(verb("see"), object=SHE), PRESENT, negative=True, contracted=True), "He doesn't see her."),
        (Clause(HE, Action(verb("see"), object=SHE), PAST, negative=True), "He did not see her."),
        (Clause(THEY, Action(verb("sleep")), FUTURE, negative=True, contracted=True), "They won't sleep."),
        (Clause(TOM, Action(verb("eat"), MODALS[0], some("bread")), PRESENT), "Tom wants to eat bread."),
        (
            Clause(YOU, Action(verb("go"), locative=Locative(Preposition.TO, mine("school"))), PAST),
            "You went to my school.",
        ),
        (
            Clause(ANNA, Possession(NounPhrase(noun("book"), Determiner.COUNTED, True, number=NUMBERS[1])), PRESENT),
            "Anna has three books.",
        ),
        (
            Clause(the("mouse", plural=True), Quality(adjective("small"), Degree.VERY), PAST),
            "The mice were very small.",
        ),
        (Clause(WE, Comparison(adjective("famous"), -1, the("king")), PRESENT), "We are less famous than the king."),
        (
            Clause(Coordination(TOM, I), Location(Locative(Preposition.IN, the("garden"))), PRESENT),
            "Tom and I are in the garden.",
        ),
        (
            Clause(
                NounPhrase(noun("cat"), Determiner.POSSESSED, possessor=the("girl", plural=True)),
                Action(verb("sleep")),
                PAST,
            ),
            "The girls' cat slept.",
        ),
    ],
)
def test_statements(clause: Clause, expected: str) -> None:
    assert english(clause) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(HE, Action(verb("like"), object=the("cat")), PRESENT, Q), "Does he like the cat?"),
        (Clause(YOU, Action(verb("sleep")), PAST, Q, negative=True), "Did you not sleep?"),
        (Clause(YOU, Action(verb("sleep")), PAST, Q, negative=True, contracted=True), "Didn't you sleep?"),
        (Clause(WHO, Action(verb("see"), object=the("cat")), PRESENT, Q, wh=Wh.WHO), "Who sees the cat?"),
        (Clause(the("girl"), Action(verb("look for")), PRESENT, Q, wh=Wh.WHAT), "What is the girl looking for?"),
        (Clause(TOM, Action(verb("come")), PRESENT, Q, wh=Wh.WHERE_FROM), "Where is Tom coming from?"),
        (Clause(the("cat"), Location(None), FUTURE, Q, wh=Wh.WHERE), "Where will the cat be?"),
        (
            Clause(YOU, Possession(NounPhrase(noun("cat"), Determiner.HOW_MANY, True)), PRESENT, Q, wh=Wh.HOW_MANY),
            "How many cats do you have?",
        ),
    ],
)
def test_questions(clause: Clause, expected: str) -> None:
    assert english(clause) == expected


def test_commands() -> None:
    look = Action(verb("look at"), object=HE)
    assert english(Clause(YOU, look, PRESENT, COMMAND)) == "Look at him!"
    assert english(Clause(YOU, look, PRESENT, Mood.REQUEST, True, contracted=True)) == "Please don't look at him."


def test_existence() -> None:
    garden = Locative(Preposition.IN, the("garden"))
    assert english(Existence(some("cat", plural=True), garden, PRESENT)) == "There are cats in the garden."
    assert english(Existence(some("cat"), garden, PAST, negative=True)) == "There was no cat in the garden."
    assert english(Existence(some("cat"), garden, FUTURE, Q)) == "Will there be a cat in the garden?"


@pytest.mark.parametrize(
    ("subject", "pronoun"),
    [
        (the("girl"), "she"),
        (the("girl", plural=True), "they"),
        (TOM, "he"),
        (the("cow"), "it"),
        (Coordination(TOM, I), "we"),
    ],
)
def test_the_pronoun_after_because(subject: NounPhrase | Name | Coordination, pronoun: str) -> None:
    result = Clause(subject, Quality(adjective("tired")), PRESENT)
    text = english(Reason(result, Clause(Anaphor(subject), Action(verb("run")), PAST)))
    assert text.endswith(f"because {pronoun} ran.")


def test_time_opens_or_ends_the_sentence() -> None:
    today = next(time for time in TIMES if time.english == "today")
    assert english(Clause(SHE, Action(verb("run")), PRESENT, time=today)) == "She is running today."
    assert english(Clause(SHE, Action(verb("run")), PRESENT, time=today, time_first=True)) == "Today she is running."


@pytest.mark.seed("D6")
def test_the_pronoun_is_the_same_whatever_it_means() -> None:
    message = "The animal didn't cross the street because it was too"
    assert [english(crossing(side, word)) for side, word in ((True, "tired"), (False, "wide"))] == [
        f"{message} tired.", f"{message} wide.",
    ]  # fmt: skip
