"""Turkish sentences against what a Turkish grammar asks for: word order, case, possession, negation, questions."""

from __future__ import annotations

import pytest
from tests.unit.phrasebook.crossing import crossing
from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Coordination,
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
    Case,
    I,
    Name,
    Noun,
    Preposition,
    Tense,
    Verb,
)
from tools.phrasebook.turkish import locative, noun_phrase, turkish

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
    ("phrase", "case", "expected"),
    [
        (some("house", "small", "white"), Case.NOMINATIVE, "küçük beyaz bir ev"),
        (NounPhrase(noun("book"), Determiner.COUNTED, True, number=NUMBERS[1]), Case.NOMINATIVE, "üç kitap"),
        (NounPhrase(noun("book"), Determiner.DEFINITE, True, number=NUMBERS[1]), Case.ACCUSATIVE, "üç kitabı"),
        (the("book", plural=True), Case.ACCUSATIVE, "kitapları"),
        (mine("book"), Case.ACCUSATIVE, "kitabımı"),
        (NounPhrase(noun("cat"), Determiner.POSSESSED, possessor=the("girl")), Case.NOMINATIVE, "kızın kedisi"),
        (NounPhrase(noun("house"), Determiner.POSSESSED, possessor=TOM), Case.LOCATIVE, "Tom'un evinde"),
        (NounPhrase(noun("house"), Determiner.POSSESSED, possessor=THEY), Case.NOMINATIVE, "onların evi"),
        (NounPhrase(noun("house"), Determiner.POSSESSED, possessor=SHE), Case.NOMINATIVE, "onun evi"),
        (NounPhrase(noun("house"), Determiner.THIS, plural=True), Case.NOMINATIVE, "bu evler"),
        (the("man", "old"), Case.NOMINATIVE, "yaşlı adam"),
        (the("house", "old"), Case.NOMINATIVE, "eski ev"),
    ],
)
def test_noun_phrases(phrase: NounPhrase, case: Case, expected: str) -> None:
    assert noun_phrase(phrase, case) == expected


@pytest.mark.parametrize(
    ("preposition", "landmark", "expected"),
    [
        (Preposition.IN, the("garden"), "bahçede"),
        (Preposition.TO, the("school"), "okula"),
        (Preposition.FROM, the("park"), "parktan"),
        (Preposition.ON, the("table"), "masanın üzerinde"),
        (Preposition.UNDER, the("tree"), "ağacın altında"),
        (Preposition.IN, mine("garden"), "bahçemde"),
    ],
)
def test_places(preposition: Preposition, landmark: NounPhrase, expected: str) -> None:
    assert locative(Locative(preposition, landmark)) == expected


HIS_BOOK = NounPhrase(noun("book"), Determiner.POSSESSED, possessor=HE, reflexive=True)
THREE_BOOKS = NounPhrase(noun("book"), Determiner.COUNTED, True, number=NUMBERS[1])


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(the("cat"), Action(verb("eat"), object=the("apple")), PRESENT), "Kedi elmayı yiyor."),
        (Clause(the("cat"), Action(verb("eat"), object=some("apple")), PRESENT), "Kedi bir elma yiyor."),
        (Clause(the("cat"), Action(verb("eat"), object=some("apple")), PRESENT, negative=True), "Kedi elma yemiyor."),
        (Clause(the("cat"), Action(verb("eat"), object=some("apple", plural=True)), PRESENT), "Kedi elma yiyor."),
        (Clause(I, Action(verb("see"), object=YOU), PRESENT), "Seni görüyorum."),
        (Clause(the("man"), Action(verb("read"), object=HIS_BOOK), PAST), "Adam kitabını okudu."),
        (Clause(the("girl", plural=True), Action(verb("sing")), PRESENT), "Kızlar şarkı söylüyor."),
        (Clause(THEY, Action(verb("sing")), PRESENT), "Onlar şarkı söylüyorlar."),
        (Clause(WE, Action(verb("help"), object=the("teacher")), FUTURE), "Öğretmene yardım edeceğiz."),
        (Clause(TOM, Action(verb("talk to"), object=the("girl")), PAST), "Tom kızla konuştu."),
        (Clause(TOM, Action(verb("give"), object=the("book"), recipient=ANNA), PAST), "Tom kitabı Anna'ya verdi."),
        (Clause(TOM, Action(verb("give"), object=some("book"), recipient=ANNA), PAST), "Tom Anna'ya bir kitap verdi."),
        (Clause(I, Action(verb("eat"), MODALS[0], some("apple")), PRESENT), "Bir elma yemek istiyorum."),
        (Clause(SHE, Action(verb("swim"), MODALS[1]), PAST), "O yüzmeyi seviyordu."),
        (
            Clause(
                HE, Action(verb("eat"), object=some("egg", plural=True), habitual=True, adverb=FREQUENCY[2]), PRESENT
            ),
            "O hiç yumurta yemiyor.",
        ),
        (Clause(I, Quality(adjective("young")), PRESENT), "Gencim."),
        (Clause(I, Quality(adjective("tired")), PRESENT, negative=True), "Yorgun değilim."),
        (Clause(the("cat"), Comparison(adjective("small"), 1, the("dog")), PRESENT), "Kedi köpekten daha küçük."),
        (Clause(I, Comparison(adjective("rich"), 0, SHE), PRESENT), "Onun kadar zenginim."),
        (Clause(I, Possession(THREE_BOOKS), PRESENT), "Üç kitabım var."),
        (Clause(the("girl"), Possession(some("book")), PAST), "Kızın bir kitabı vardı."),
        (Clause(I, Possession(some("book")), PRESENT, negative=True), "Kitabım yok."),
        (Clause(Coordination(TOM, I), Action(verb("sleep")), PRESENT), "Tom ve ben uyuyoruz."),
    ],
)
def test_statements(clause: Clause, expected: str) -> None:
    assert turkish(clause) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(the("cat"), Action(verb("eat"), object=the("apple")), PRESENT, Q), "Kedi elmayı yiyor mu?"),
        (Clause(YOU, Action(verb("eat"), object=the("apple")), PAST, Q), "Elmayı yedin mi?"),
        (Clause(the("house"), Quality(adjective("big")), PAST, Q), "Ev büyük müydü?"),
        (Clause(WHO, Action(verb("eat"), object=the("apple")), PRESENT, Q, wh=Wh.WHO), "Elmayı kim yiyor?"),
        (Clause(the("girl"), Action(verb("eat")), PAST, Q, wh=Wh.WHAT), "Kız ne yedi?"),
        (Clause(YOU, Location(None), PRESENT, Q, wh=Wh.WHERE), "Neredesin?"),
        (Clause(YOU, Action(verb("go")), PRESENT, Q, wh=Wh.WHERE_TO), "Nereye gidiyorsun?"),
        (Clause(WHO, Possession(some("car")), PRESENT, Q, wh=Wh.WHO), "Kimin bir arabası var?"),
        (
            Clause(YOU, Possession(NounPhrase(noun("cat"), Determiner.HOW_MANY, True)), PRESENT, Q, wh=Wh.HOW_MANY),
            "Kaç kedin var?",
        ),
    ],
)
def test_questions(clause: Clause, expected: str) -> None:
    assert turkish(clause) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(YOU, Action(verb("open"), object=the("door")), PRESENT, COMMAND), "Kapıyı aç!"),
        (Clause(YOU, Action(verb("open"), object=the("door")), PRESENT, Mood.REQUEST, True), "Lütfen kapıyı açma."),
    ],
)
def test_commands(clause: Clause, expected: str) -> None:
    assert turkish(clause) == expected


def test_existence() -> None:
    garden = Locative(Preposition.IN, the("garden"))
    assert turkish(Existence(some("cat"), garden, PRESENT)) == "Bahçede bir kedi var."
    assert turkish(Existence(some("cat"), garden, PRESENT, negative=True)) == "Bahçede kedi yok."
    assert turkish(Existence(some("cat"), garden, PAST, Q)) == "Bahçede bir kedi var mıydı?"


def test_the_subject_after_because_is_silent() -> None:
    girls = the("girl", plural=True)
    cause = Clause(Anaphor(girls), Action(verb("sleep")), PAST, negative=True)
    sentence = Reason(Clause(girls, Quality(adjective("tired")), PRESENT), cause)
    assert turkish(sentence) == "Kızlar yorgun, çünkü uyumadılar."


def test_time_follows_the_subject_or_opens_the_sentence() -> None:
    yesterday = next(time for time in TIMES if time.english == "yesterday")
    action = Action(verb("go"), locative=Locative(Preposition.TO, the("school")))
    assert turkish(Clause(the("girl"), action, PAST, time=yesterday)) == "Kız dün okula gitti."
    assert turkish(Clause(the("girl"), action, PAST, time=yesterday, time_first=True)) == "Dün kız okula gitti."


@pytest.mark.seed("D6")
@pytest.mark.parametrize(
    ("of_subject", "adjective", "text"),
    [
        (True, "tired", "Hayvan sokağı geçmedi, çünkü çok yorgundu."),
        (False, "wide", "Hayvan sokağı geçmedi, çünkü sokak çok genişti."),
        (True, "old", "Hayvan sokağı geçmedi, çünkü çok yaşlıydı."),
        (False, "old", "Hayvan sokağı geçmedi, çünkü sokak çok eskiydi."),
    ],
)
def test_a_referent_other_than_the_subject_is_named_again(of_subject: bool, adjective: str, text: str) -> None:
    assert turkish(crossing(of_subject, adjective)) == text
