"""Turkish word forms against the paradigms of a reference grammar (Göksel and Kerslake; TDK spelling guide)."""

from __future__ import annotations

import pytest
from tools.phrasebook import turkish_forms as forms
from tools.phrasebook.lexicon import Case, Tense

PRESENT, PAST, FUTURE = Tense
ACC, DAT, LOC, ABL, GEN, INS = (Case(index) for index in range(1, 7))


@pytest.mark.parametrize(
    ("stem", "suffix", "expected"),
    [
        ("ev", "lAr", "evler"),
        ("okul", "lAr", "okullar"),
        ("göz", "lAr", "gözler"),
        ("kız", "lAr", "kızlar"),
        ("gün", "DA", "günde"),
        ("ağaç", "DA", "ağaçta"),
        ("süt", "DAn", "sütten"),
        ("kedi", "(s)I", "kedisi"),
        ("ev", "(s)I", "evi"),
        ("top", "(I)m", "topum"),
        ("araba", "(I)m", "arabam"),
        ("okul", "(y)lA", "okulla"),
        ("köy", "(n)In", "köyün"),
        ("kapı", "(n)In", "kapının"),
    ],
)
def test_vowel_harmony_and_buffer_letters(stem: str, suffix: str, expected: str) -> None:
    assert forms.attach(stem, suffix) == expected


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("kitap", "kitab"),
        ("ağaç", "ağac"),
        ("köpek", "köpeğ"),
        ("sokak", "sokağ"),
        ("renk", "renk"),
        ("top", "top"),
        ("et", "et"),
        ("bilet", "bilet"),
        ("kepenk", "kepeng"),
        ("saç", "saç"),
    ],
)
def test_consonant_softening_spares_one_syllable(stem: str, expected: str) -> None:
    assert forms.oblique_stem(stem) == expected


@pytest.mark.parametrize(
    ("stem", "oblique", "case", "expected"),
    [
        ("kitap", "", ACC, "kitabı"),
        ("ağaç", "", LOC, "ağaçta"),
        ("ağaç", "", DAT, "ağaca"),
        ("şehir", "şehr", ACC, "şehri"),
        ("şehir", "şehr", LOC, "şehirde"),
        ("su", "suy", ACC, "suyu"),
        ("su", "suy", GEN, "suyun"),
        ("su", "suy", LOC, "suda"),
        ("park", "", ACC, "parkı"),
        ("kurt", "kurd", ACC, "kurdu"),
        ("köpek", "", GEN, "köpeğin"),
        ("bahçe", "", ABL, "bahçeden"),
        ("kız", "", INS, "kızla"),
        ("komşu", "", INS, "komşuyla"),
        ("okul", "", DAT, "okula"),
        ("müze", "", DAT, "müzeye"),
    ],
)
def test_cases(stem: str, oblique: str, case: Case, expected: str) -> None:
    assert forms.noun_form(stem, oblique, False, None, case) == expected


@pytest.mark.parametrize(
    ("stem", "many", "owner", "case", "expected"),
    [
        ("kitap", False, 0, Case.NOMINATIVE, "kitabım"),
        ("kedi", False, 1, Case.NOMINATIVE, "kedin"),
        ("ev", False, 2, Case.NOMINATIVE, "evi"),
        ("araba", False, 2, Case.NOMINATIVE, "arabası"),
        ("okul", False, 3, Case.NOMINATIVE, "okulumuz"),
        ("ev", False, 5, Case.NOMINATIVE, "evleri"),
        ("ev", True, 5, Case.NOMINATIVE, "evleri"),
        ("kitap", True, 0, LOC, "kitaplarımda"),
        ("kitap", False, 2, ACC, "kitabını"),
        ("bahçe", False, 2, LOC, "bahçesinde"),
        ("anne", False, 2, DAT, "annesine"),
        ("arkadaş", False, 2, INS, "arkadaşıyla"),
        ("ev", False, 2, ABL, "evinden"),
        ("köpek", False, 2, GEN, "köpeğinin"),
        ("oda", False, 0, DAT, "odama"),
    ],
)
def test_possessives_with_cases(stem: str, many: bool, owner: int, case: Case, expected: str) -> None:
    assert forms.noun_form(stem, "", many, owner, case) == expected


def test_irregular_water_with_possessives() -> None:
    assert forms.noun_form("su", "suy", False, 0, Case.NOMINATIVE) == "suyum"
    assert forms.noun_form("su", "suy", False, 2, Case.NOMINATIVE) == "suyu"


@pytest.mark.parametrize(
    ("name", "case", "expected"),
    [
        ("Tom", GEN, "Tom'un"),
        ("Anna", ACC, "Anna'yı"),
        ("Ali", GEN, "Ali'nin"),
        ("Martin", DAT, "Martin'e"),
        ("Tom", INS, "Tom'la"),
        ("Emma", ABL, "Emma'dan"),
        ("Ali", INS, "Ali'yle"),
    ],
)
def test_names_take_an_apostrophe(name: str, case: Case, expected: str) -> None:
    assert forms.name_form(name, case) == expected


@pytest.mark.parametrize(
    ("stem", "tense", "person", "negative", "question", "expected"),
    [
        ("git", FUTURE, 0, False, False, "gideceğim"),
        ("ye", PRESENT, 2, False, False, "yiyor"),
        ("ye", FUTURE, 2, False, False, "yiyecek"),
        ("ye", PAST, 1, False, False, "yedin"),
        ("git", PRESENT, 0, False, False, "gidiyorum"),
        ("git", PAST, 3, False, False, "gittik"),
        ("git", PRESENT, 0, True, False, "gitmiyorum"),
        ("git", FUTURE, 3, True, False, "gitmeyeceğiz"),
        ("git", PAST, 5, True, False, "gitmediler"),
        ("bekle", PRESENT, 2, False, False, "bekliyor"),
        ("söyle", PRESENT, 2, False, False, "söylüyor"),
        ("oku", PRESENT, 5, False, False, "okuyorlar"),
        ("oku", FUTURE, 1, False, False, "okuyacaksın"),
        ("oku", PRESENT, 2, True, False, "okumuyor"),
        ("ara", PRESENT, 2, False, False, "arıyor"),
        ("yürü", PRESENT, 3, False, False, "yürüyoruz"),
        ("et", PRESENT, 0, False, False, "ediyorum"),
        ("kaybet", FUTURE, 2, False, False, "kaybedecek"),
        ("kapat", PRESENT, 2, False, False, "kapatıyor"),
        ("ye", PRESENT, 2, True, False, "yemiyor"),
        ("ye", PRESENT, 1, False, True, "yiyor musun"),
        ("ye", PAST, 1, False, True, "yedin mi"),
        ("oku", PAST, 2, False, True, "okudu mu"),
        ("git", FUTURE, 0, False, True, "gidecek miyim"),
        ("git", FUTURE, 5, False, True, "gidecekler mi"),
        ("yap", PRESENT, 5, False, True, "yapıyorlar mı"),
        ("gör", PAST, 2, True, True, "görmedi mi"),
        ("iç", PAST, 0, False, False, "içtim"),
    ],
)
def test_finite_verbs(stem: str, tense: Tense, person: int, negative: bool, question: bool, expected: str) -> None:
    assert forms.finite_verb(stem, tense, person, negative, question) == expected


@pytest.mark.parametrize(
    ("stem", "person", "negative", "question", "expected"),
    [
        ("sev", 0, False, False, "seviyordum"),
        ("iste", 5, True, False, "istemiyorlardı"),
        ("tanı", 1, False, True, "tanıyor muydun"),
        ("iste", 5, False, True, "istiyorlar mıydı"),
    ],
)
def test_past_progressive(stem: str, person: int, negative: bool, question: bool, expected: str) -> None:
    assert forms.past_progressive(stem, person, negative, question) == expected


@pytest.mark.parametrize(
    ("word", "tense", "person", "negative", "question", "expected"),
    [
        ("yorgun", PRESENT, 0, False, False, "yorgunum"),
        ("hasta", PRESENT, 3, False, False, "hastayız"),
        ("büyük", PRESENT, 2, False, True, "büyük mü"),
        ("büyük", PAST, 2, False, False, "büyüktü"),
        ("küçük", PRESENT, 0, False, False, "küçüğüm"),
        ("büyük", PAST, 2, False, True, "büyük müydü"),
        ("yorgun", PRESENT, 0, True, False, "yorgun değilim"),
        ("yorgun", PAST, 1, True, False, "yorgun değildin"),
        ("mutlu", PRESENT, 1, False, True, "mutlu musun"),
        ("hasta", PAST, 1, False, False, "hastaydın"),
        ("evde", PRESENT, 0, False, False, "evdeyim"),
        ("hasta", FUTURE, 0, False, False, "hasta olacağım"),
        ("yorgun", PRESENT, 1, True, True, "yorgun değil misin"),
        ("mutlu", FUTURE, 2, True, False, "mutlu olmayacak"),
        ("mutlu", PRESENT, 5, False, False, "mutlu"),
        ("zengin", PAST, 3, False, False, "zengindik"),
    ],
)
def test_nominal_predicates(
    word: str, tense: Tense, person: int, negative: bool, question: bool, expected: str
) -> None:
    assert forms.copula(word, tense, person, negative, question) == expected


def test_existential() -> None:
    assert [forms.existential(tense) for tense in Tense] == ["var", "vardı", "olacak"]
    assert [forms.existential(tense, negative=True) for tense in Tense] == ["yok", "yoktu", "olmayacak"]
    assert [forms.existential(tense, question=True) for tense in Tense] == ["var mı", "var mıydı", "olacak mı"]


def test_verbal_nouns() -> None:
    assert forms.infinitive("oku", "mAk") == "okumak"
    assert forms.infinitive("ye", "mAyI") == "yemeyi"
    assert forms.infinitive("çalış", "mAyA") == "çalışmaya"


def test_capitals_know_both_i() -> None:
    assert forms.capitalise("iki") == "İki"
    assert forms.capitalise("ılık") == "Ilık"
    assert forms.capitalise("çocuk") == "Çocuk"


def test_an_n_joins_the_case_behind_every_possessive_of_the_third_person() -> None:
    """Göksel and Kerslake 2005, section 6.1.3: evlerinde, kitabını; not so behind the others: evimde, evinizi."""
    for owner in range(6):
        joint = "n" if owner in (2, 5) else ""
        for many in (False, True):
            word = forms.noun_form("ev", "", many, owner, Case.NOMINATIVE)
            assert forms.noun_form("ev", "", many, owner, Case.LOCATIVE) == f"{word}{joint}de"
            assert forms.noun_form("ev", "", many, owner, Case.ABLATIVE) == f"{word}{joint}den"
