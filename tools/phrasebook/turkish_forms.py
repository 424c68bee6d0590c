"""The word forms of Turkish: vowel harmony, consonant alternation, case, possession, and the finite verb.

A suffix is written as in grammars (Göksel and Kerslake, *Turkish: A Comprehensive Grammar*, chapters 2, 3 and 8):
A is e or a, I is i, ı, u or ü, D is d or t; a first letter in parentheses stands only where it keeps two vowels or
two consonants apart.
"""

from __future__ import annotations

from functools import cache

from tools.phrasebook.lexicon import Case, Tense

_VOWELS = "aeıioöuü"
_VOICELESS = "fstkçşhp"
_LOW = {vowel: "a" if vowel in "aıou" else "e" for vowel in _VOWELS}
_HIGH = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
_SOFT = {"p": "b", "ç": "c", "t": "d", "k": "ğ"}
_CASES = ("", "(y)I", "(y)A", "DA", "DAn", "(n)In", "(y)lA")
# After the possessive of the third person an n joins the case: evinde, kitabını.
_PRONOMINAL_CASES = ("", "nI", "nA", "ndA", "ndAn", "nIn", "ylA")
_POSSESSIVES = ("(I)m", "(I)n", "(s)I", "(I)mIz", "(I)nIz", "lArI")
_PRESENT_PERSONS = ("(y)Im", "sIn", "", "(y)Iz", "sInIz", "lAr")
_PAST_PERSONS = ("m", "n", "", "k", "nIz", "lAr")
_SOFTENING_VERBS = ("et", "git", "kaybet")


@cache
def last_vowel(stem: str) -> str:
    """The vowel that later vowels agree with; a stem of consonants behaves like one in i (y- of yemek)."""
    return next((letter for letter in reversed(stem.lower()) if letter in _VOWELS), "i")


@cache
def realise(stem: str, suffix: str) -> str:
    """The letters of a suffix after a stem: ("kitap", "DA") -> "ta"."""
    if suffix.startswith("("):
        wanted = (stem[-1].lower() in _VOWELS) != (suffix[1] in "AI")
        suffix = (suffix[1] if wanted else "") + suffix[3:]
    vowel, before, letters = last_vowel(stem), stem[-1].lower(), []
    for letter in suffix:
        if letter == "A":
            letter = vowel = _LOW[vowel]
        elif letter == "I":
            letter = vowel = _HIGH[vowel]
        elif letter == "D":
            letter = "t" if before in _VOICELESS else "d"
        elif letter in _VOWELS:
            vowel = letter
        letters.append(letter)
        before = letter
    return "".join(letters)


@cache
def attach(stem: str, suffix: str, oblique: str = "") -> str:
    """A stem with a suffix; the oblique stem stands before a vowel: kitap + (y)I -> kitabı, su + (s)I -> suyu."""
    if oblique:
        letters = realise(oblique, suffix)
        if letters[:1] in tuple(_VOWELS):
            return oblique + letters
    return stem + realise(stem, suffix)


@cache
def oblique_stem(stem: str) -> str:
    """The stem before a vowel: a word of two or more syllables softens its final p, ç, k (ağaç -> ağac-)."""
    last_word = stem.rsplit(" ", 1)[-1]
    if sum(letter in _VOWELS for letter in last_word) < 2 or stem[-1] not in "pçk":
        return stem
    return stem[:-1] + ("g" if stem.endswith("nk") else _SOFT[stem[-1]])


@cache
def noun_form(stem: str, oblique: str, many: bool, owner: int | None, case: Case) -> str:
    """A noun with plural, possessive (`owner` indexes ben to onlar) and case: kitaplarımda."""
    oblique = oblique or oblique_stem(stem)
    if many:
        stem = oblique = attach(stem, "lAr")
    if owner is not None:
        suffix = "I" if many and owner == 5 else _POSSESSIVES[owner]
        stem = oblique = attach(stem, suffix, oblique)
    cases = _PRONOMINAL_CASES if owner in (2, 5) else _CASES
    return attach(stem, cases[case], oblique) if case else stem


@cache
def name_form(name: str, case: Case) -> str:
    """A proper name with its case after an apostrophe: Tom'un."""
    return f"{name}'{realise(name, _CASES[case])}" if case else name


def verb_oblique(stem: str) -> str:
    """The verb stem before a vowel: git- -> gid-, and so et- and its compounds."""
    last_word = stem.rsplit(" ", 1)[-1]
    return stem[:-1] + "d" if last_word in _SOFTENING_VERBS else stem


@cache
def infinitive(stem: str, suffix: str) -> str:
    """The verbal noun under a modal: yemek, yemeyi, okumaya."""
    return attach(stem, suffix)


def _progressive(stem: str) -> str:
    """-Iyor, before which a final a or e goes: bekle- -> bekliyor, gitme- -> gitmiyor."""
    base = verb_oblique(stem)
    if base[-1] in "ae":
        base = base[:-1]
    if base[-1] in _VOWELS:
        return base + "yor"
    return base + realise(base, "I") + "yor"


def _future(stem: str) -> str:
    """-(y)AcAK: gidecek, okuyacak, yiyecek."""
    if stem.rsplit(" ", 1)[-1] in ("ye", "de"):
        stem = stem[:-1] + "i"
    return attach(stem, "(y)AcAk", verb_oblique(stem))


def _with_person(stem: str, tense: Tense, person: int) -> str:
    suffix = (_PAST_PERSONS if tense is Tense.PAST else _PRESENT_PERSONS)[person]
    if not suffix:
        return stem
    return attach(stem, suffix, stem[:-1] + "ğ" if stem.endswith("k") else "")


def _question(stem: str, tense: Tense, person: int) -> str:
    """The particle mI, which carries the person except in -DI and before -lAr: yiyor musun, yedin mi, yiyorlar mı."""
    if tense is Tense.PAST or person == 5:
        verb = _with_person(stem, tense, person)
        return f"{verb} {_particle(verb)}"
    return f"{stem} {_with_person(_particle(stem), tense, person)}"


def _particle(word: str) -> str:
    return "m" + realise(word, "I")


@cache
def finite_verb(stem: str, tense: Tense, person: int, negative: bool = False, question: bool = False) -> str:
    """A finite verb in -Iyor, -DI or -AcAK; `person` indexes ben to onlar."""
    if negative:
        stem = attach(stem, "mA")
    if tense is Tense.PRESENT:
        stem = _progressive(stem)
    else:
        stem = _future(stem) if tense is Tense.FUTURE else attach(stem, "DI")
    return _question(stem, tense, person) if question else _with_person(stem, tense, person)


@cache
def past_progressive(stem: str, person: int, negative: bool = False, question: bool = False) -> str:
    """Form the past of a lasting state (-Iyordu): seviyordum, istemiyorlardı, tanıyor muydun."""
    stem = _progressive(attach(stem, "mA") if negative else stem)
    suffix = _PAST_PERSONS[person]
    if person == 5:
        stem, suffix = stem + "lar", ""
    if question:
        return f"{stem} {attach(_particle(stem), '(y)DI')}{suffix}"
    return attach(stem, "DI") + suffix


@cache
def copula(
    word: str, tense: Tense, person: int, negative: bool = False, question: bool = False, oblique: str = ""
) -> str:
    """A nominal predicate: yorgunum, yorgun değildin, büyük müydü, hasta olacak."""
    if tense is Tense.FUTURE:
        return f"{word} {finite_verb('ol', tense, person, negative, question)}"
    if negative:
        word, oblique, prefix = "değil", "", word + " "
    else:
        prefix = ""
    if question:
        word, oblique, prefix = _particle(word), "", f"{prefix}{word} "
    if tense is Tense.PAST:
        word, oblique = attach(word, "(y)DI"), ""
    # The third person plural of a nominal predicate stays unmarked beside its subject: onlar yorgun.
    suffix = "" if person == 5 else (_PAST_PERSONS if tense is Tense.PAST else _PRESENT_PERSONS)[person]
    return prefix + (attach(word, suffix, oblique or oblique_stem(word)) if suffix else word)


@cache
def existential(tense: Tense, negative: bool = False, question: bool = False) -> str:
    """Form var or yok, which say "there is" and "has", in a tense."""
    if tense is Tense.FUTURE:
        return finite_verb("ol", tense, 2, negative, question)
    return copula("yok" if negative else "var", tense, 2, question=question)


def capitalise(text: str) -> str:
    """The first letter as a capital: i gives İ, ı gives I."""
    first = {"i": "İ", "ı": "I"}.get(text[0], text[0].upper())
    return first + text[1:]
