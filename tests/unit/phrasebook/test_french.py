"""French sentences against what a French grammar asks for: agreement, clitics, negation, questions, contraction."""

from __future__ import annotations

import pytest
from tests.unit.phrasebook.crossing import crossing
from tools.phrasebook.french import french, locative, noun_phrase, with_preposition
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
NBSP = "\u00a0"


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
    ("phrase", "expected"),
    [
        (some("house", "small", "white"), "une petite maison blanche"),
        (some("house", "small", plural=True), "de petites maisons"),
        (some("cat", plural=True), "des chats"),
        (some("bread"), "du pain"),
        (some("water"), "de l'eau"),
        (some("soup", "good"), "de la bonne soupe"),
        (the("bird", "beautiful"), "le bel oiseau"),
        (the("man", "old"), "le vieil homme"),
        (the("school"), "l'école"),
        (the("hospital", plural=True), "les hôpitaux"),
        (mine("school"), "mon école"),
        (mine("school", "small"), "ma petite école"),
        (mine("house"), "ma maison"),
        (mine("friend", plural=True), "mes amis"),
        (NounPhrase(noun("man"), Determiner.THIS), "cet homme"),
        (NounPhrase(noun("boy"), Determiner.THIS), "ce garçon"),
        (NounPhrase(noun("girl"), Determiner.THIS), "cette fille"),
        (NounPhrase(noun("orange"), Determiner.MANY, plural=True), "beaucoup d'oranges"),
        (NounPhrase(noun("book"), Determiner.COUNTED, True, number=NUMBERS[1]), "trois livres"),
        (NounPhrase(noun("cat"), Determiner.POSSESSED, possessor=the("boy")), "le chat du garçon"),
        (NounPhrase(noun("cat"), Determiner.POSSESSED, possessor=ANNA), "le chat d'Anna"),
        (NounPhrase(noun("cat"), Determiner.POSSESSED, possessor=the("girl", plural=True)), "le chat des filles"),
    ],
)
def test_noun_phrases(phrase: NounPhrase, expected: str) -> None:
    assert noun_phrase(phrase) == expected


@pytest.mark.parametrize(
    ("preposition", "landmark", "expected"),
    [
        (Preposition.TO, the("garden"), "au jardin"),
        (Preposition.TO, the("school"), "à l'école"),
        (Preposition.TO, the("hotel"), "à l'hôtel"),
        (Preposition.TO, the("house"), "à la maison"),
        (Preposition.FROM, the("park"), "du parc"),
        (Preposition.FROM, the("hospital"), "de l'hôpital"),
        (Preposition.FROM, mine("office"), "de mon bureau"),
        (Preposition.NEAR, the("castle"), "près du château"),
        (Preposition.NEAR, the("tree"), "près de l'arbre"),
        (Preposition.IN, the("garden"), "dans le jardin"),
    ],
)
def test_contraction_of_prepositions(preposition: Preposition, landmark: NounPhrase, expected: str) -> None:
    assert locative(Locative(preposition, landmark)) == expected


def test_preposition_before_people() -> None:
    assert with_preposition("à", the("child", plural=True)) == "aux enfants"
    assert with_preposition("de", ANNA) == "d'Anna"
    assert with_preposition("avec", I) == "avec moi"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(WE, Action(verb("eat"), object=some("apple")), PRESENT), "Nous mangeons une pomme."),
        (Clause(the("girl", plural=True), Action(verb("leave")), PAST), "Les filles sont parties."),
        (Clause(HE, Action(verb("see"), object=the("cat")), PAST, negative=True), "Il n'a pas vu le chat."),
        (Clause(I, Action(verb("see"), object=HE), PRESENT), "Je le vois."),
        (Clause(I, Action(verb("see"), object=SHE), PAST), "Je l'ai vue."),
        (Clause(YOU, Action(verb("see"), object=THEY), PAST, negative=True), "Tu ne les as pas vus."),
        (Clause(SHE, Action(verb("talk to"), object=THEY), PAST), "Elle leur a parlé."),
        (Clause(TOM, Action(verb("give"), object=the("book"), recipient=I), PRESENT), "Tom me donne le livre."),
        (
            Clause(TOM, Action(verb("give"), object=the("book"), recipient=the("boy")), PRESENT),
            "Tom donne le livre au garçon.",
        ),
        (Clause(HE, Action(verb("eat"), object=some("apple")), PRESENT, negative=True), "Il ne mange pas de pomme."),
        (
            Clause(
                SHE, Action(verb("eat"), object=some("apple", plural=True), habitual=True, adverb=FREQUENCY[2]), PRESENT
            ),
            "Elle ne mange jamais de pommes.",
        ),
        (
            Clause(HE, Action(verb("eat"), habitual=True, adverb=FREQUENCY[0], object=some("bread")), PRESENT),
            "Il mange souvent du pain.",
        ),
        (Clause(I, Action(verb("eat"), MODALS[0], some("apple")), PAST), "Je voulais manger une pomme."),
        (Clause(HE, Action(verb("see"), MODALS[0], SHE), PRESENT, negative=True), "Il ne veut pas la voir."),
        (Clause(WE, Action(verb("listen to"), MODALS[2], the("bird")), PRESENT), "Nous essayons d'écouter l'oiseau."),
        (Clause(the("woman"), Quality(adjective("happy"), Degree.VERY), PAST), "La femme était très heureuse."),
        (Clause(Coordination(ANNA, TOM), Quality(adjective("tired")), PRESENT), "Anna et Tom sont fatigués."),
        (
            Clause(Coordination(TOM, I), Action(verb("eat"), object=some("soup")), PRESENT),
            "Tom et moi mangeons de la soupe.",
        ),
        (
            Clause(the("cow"), Comparison(adjective("big"), 1, the("dog")), PRESENT),
            "La vache est plus grande que le chien.",
        ),
        (
            Clause(the("pear"), Comparison(adjective("good"), 1, the("apple")), PRESENT),
            "La poire est meilleure que la pomme.",
        ),
        (Clause(HE, Comparison(adjective("rich"), 0, SHE), PRESENT), "Il est aussi riche qu'elle."),
        (Clause(HE, Possession(some("car")), PRESENT, negative=True), "Il n'a pas de voiture."),
    ],
)
def test_statements(clause: Clause, expected: str) -> None:
    assert french(clause) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(HE, Action(verb("like"), object=the("cat")), PRESENT, Q), f"Aime-t-il le chat{NBSP}?"),
        (Clause(YOU, Action(verb("see"), object=HE), PAST, Q, negative=True), f"Ne l'as-tu pas vu{NBSP}?"),
        (Clause(I, Action(verb("sleep")), PRESENT, Q), f"Est-ce que je dors{NBSP}?"),
        (Clause(ANNA, Action(verb("sleep")), PRESENT, Q), f"Est-ce qu'Anna dort{NBSP}?"),
        (Clause(SHE, Action(verb("eat")), PAST, Q, wh=Wh.WHAT), f"Qu'est-ce qu'elle a mangé{NBSP}?"),
        (Clause(WHO, Action(verb("eat"), object=the("apple")), PRESENT, Q, wh=Wh.WHO), f"Qui mange la pomme{NBSP}?"),
        (Clause(the("cat"), Location(None), PAST, Q, wh=Wh.WHERE), f"Où était le chat{NBSP}?"),
        (Clause(YOU, Action(verb("go")), PRESENT, Q, wh=Wh.WHERE_TO), f"Où vas-tu{NBSP}?"),
        (Clause(TOM, Action(verb("come")), PRESENT, Q, wh=Wh.WHERE_FROM), f"D'où est-ce que Tom vient{NBSP}?"),
        (
            Clause(YOU, Possession(NounPhrase(noun("orange"), Determiner.HOW_MANY, True)), PRESENT, Q, wh=Wh.HOW_MANY),
            f"Combien d'oranges as-tu{NBSP}?",
        ),
    ],
)
def test_questions(clause: Clause, expected: str) -> None:
    assert french(clause) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(YOU, Action(verb("look at"), object=HE), PRESENT, COMMAND), f"Regarde-le{NBSP}!"),
        (Clause(YOU, Action(verb("listen to"), object=I), PRESENT, COMMAND), f"Écoute-moi{NBSP}!"),
        (Clause(YOU, Action(verb("look at"), object=HE), PRESENT, COMMAND, True), f"Ne le regarde pas{NBSP}!"),
        (
            Clause(YOU, Action(verb("open"), object=the("door")), PRESENT, Mood.REQUEST),
            "Ouvre la porte, s'il te plaît.",
        ),
    ],
)
def test_commands(clause: Clause, expected: str) -> None:
    assert french(clause) == expected


def test_existence() -> None:
    garden = Locative(Preposition.IN, the("garden"))
    assert french(Existence(some("cat"), garden, PRESENT)) == "Il y a un chat dans le jardin."
    assert french(Existence(some("cat"), garden, PAST, negative=True)) == "Il n'y avait pas de chat dans le jardin."
    assert french(Existence(some("cat"), garden, FUTURE, Q)) == f"Y aura-t-il un chat dans le jardin{NBSP}?"


def test_the_pronoun_after_because_agrees_with_its_noun() -> None:
    girls = the("girl", plural=True)
    cause = Clause(Anaphor(girls), Action(verb("sleep")), PAST, negative=True)
    sentence = Reason(Clause(girls, Quality(adjective("tired")), PRESENT), cause)
    assert french(sentence) == "Les filles sont fatiguées parce qu'elles n'ont pas dormi."


def test_time_opens_or_ends_the_sentence() -> None:
    yesterday = next(time for time in TIMES if time.english == "yesterday")
    action = Action(verb("go"), locative=Locative(Preposition.TO, the("school")))
    assert french(Clause(SHE, action, PAST, time=yesterday)) == "Elle est allée à l'école hier."
    assert french(Clause(SHE, action, PAST, time=yesterday, time_first=True)) == "Hier, elle est allée à l'école."


@pytest.mark.seed("D6")
@pytest.mark.parametrize(
    ("of_subject", "adjective", "text"),
    [
        (True, "tired", "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."),
        (False, "wide", "L'animal n'a pas traversé la rue parce qu'elle était trop large."),
    ],
)
def test_the_gender_of_the_referent_decides_the_pronoun(of_subject: bool, adjective: str, text: str) -> None:
    assert french(crossing(of_subject, adjective)) == text
