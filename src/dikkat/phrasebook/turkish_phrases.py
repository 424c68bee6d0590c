"""Noun phrases and adverbials of place said in Turkish: the order of the words and their cases."""

from __future__ import annotations

from dikkat.phrasebook.entries import Adjective, Case, Name, Preposition, Pronoun
from dikkat.phrasebook.grammar import (
    Anaphor,
    Determiner,
    Locative,
    Nominal,
    NounPhrase,
    agreement,
    is_definite,
)
from dikkat.phrasebook.turkish_forms import name_form, noun_form

_LOCATIVES = {
    Preposition.ON: "üzerinde",
    Preposition.UNDER: "altında",
    Preposition.BEHIND: "arkasında",
    Preposition.IN_FRONT_OF: "önünde",
    Preposition.NEAR: "yakınında",
}
_LOCATIVE_CASES = {
    Preposition.IN: Case.LOCATIVE,
    Preposition.TO: Case.DATIVE,
    Preposition.AT: Case.DATIVE,
    Preposition.FROM: Case.ABLATIVE,
    Preposition.INTO: Case.DATIVE,
}
_SINGULAR = frozenset((Determiner.COUNTED, Determiner.MANY, Determiner.EVERY, Determiner.HOW_MANY))
_DETERMINERS = {
    Determiner.THIS: "bu",
    Determiner.THAT: "o",
    Determiner.MANY: "birçok",
    Determiner.EVERY: "her",
    Determiner.HOW_MANY: "kaç",
}


def adjective_word(adjective: Adjective, kinds: frozenset[str]) -> str:
    """The word for an adjective beside a noun of these kinds: an old house is eski, an old man yaşlı."""
    living = "person" in kinds or "animal" in kinds
    return adjective.animate_turkish if living and adjective.animate_turkish else adjective.turkish


def kinds_of(nominal: Nominal) -> frozenset[str]:
    """The semantic classes of a nominal; whoever is not a noun is a person."""
    if isinstance(nominal, Anaphor):
        return kinds_of(nominal.antecedent)
    return nominal.noun.kinds if isinstance(nominal, NounPhrase) else frozenset(("person",))


def owner_index(possessor: Nominal, reflexive: bool) -> int:
    """The possessive suffix that an owner asks for; `onların` leaves the plural to the pronoun (onların evi)."""
    index = agreement(possessor).row
    return 2 if index == 5 and not reflexive else index


def _possessor(phrase: NounPhrase) -> str:
    """The genitive before the noun; the suffix alone tells the first and second person and a reflexive owner."""
    owner = phrase.possessor
    if owner is None or phrase.reflexive:
        return ""
    if isinstance(owner, Pronoun) and owner.person < 3:
        return ""
    return nominal(owner, Case.GENITIVE)


def _is_plural(phrase: NounPhrase) -> bool:
    """Whether -lAr is written: never after a number or a quantifier, nor for food as such (elmayı seviyorum)."""
    if phrase.determiner is Determiner.GENERIC and "food" in phrase.noun.kinds:
        return False
    return phrase.plural and phrase.number is None and phrase.determiner not in _SINGULAR


def noun_phrase(
    phrase: NounPhrase, case: Case = Case.NOMINATIVE, *, owner: int | None = None, bare: bool = False
) -> str:
    """A noun phrase in a case. `owner` is the suffix of an owner named elsewhere (bir kitabım var).

    `bare` drops the indefinite `bir` or -lAr of a noun without adjectives: elma yiyor, elma yemiyor.
    """
    bare = bare and phrase.determiner is Determiner.INDEFINITE and not phrase.adjectives
    words = [_possessor(phrase), _DETERMINERS.get(phrase.determiner, "")]
    words.append(phrase.number.turkish if phrase.number else "")
    words += [adjective_word(adjective, phrase.noun.kinds) for adjective in phrase.adjectives]
    if phrase.determiner is Determiner.INDEFINITE and not (phrase.plural or phrase.noun.mass or bare):
        words.append("bir")
    if phrase.possessor is not None:
        owner = owner_index(phrase.possessor, phrase.reflexive)
    many = _is_plural(phrase) and not bare
    words.append(noun_form(phrase.noun.turkish, phrase.noun.oblique, many, owner, case))
    return " ".join(word for word in words if word)


def nominal(subject: Nominal, case: Case = Case.NOMINATIVE, *, bare: bool = False) -> str:
    """A nominal in a case; an anaphor of a subject is silent, of anything else it is the noun once more."""
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, case, bare=bare)
    if isinstance(subject, Pronoun):
        return subject.turkish_cases[case]
    if isinstance(subject, Name):
        return name_form(subject.text, case)
    if isinstance(subject, Anaphor):
        again = subject.antecedent
        if subject.of_subject or not isinstance(again, NounPhrase):
            return ""
        return noun_phrase(NounPhrase(again.noun, plural=again.plural), case)
    return f"{nominal(subject.first)} ve {nominal(subject.second, case)}"


def subject(phrase: Nominal) -> str:
    """A subject: the pronouns of the first and second person are left to the verb."""
    if isinstance(phrase, Pronoun) and phrase.person < 3:
        return ""
    return nominal(phrase)


def direct_object(phrase: Nominal, governed: Case, *, negative: bool) -> str:
    """The object in the case its verb governs; an indefinite direct object has none (bir elma yiyor)."""
    if governed is not Case.ACCUSATIVE:
        return nominal(phrase, governed)
    if is_definite(phrase):
        return nominal(phrase, Case.ACCUSATIVE)
    plural_phrase = isinstance(phrase, NounPhrase) and phrase.plural
    return nominal(phrase, bare=negative or plural_phrase)


def locative(phrase: Locative) -> str:
    """A phrase of place: bahçede, okula, masanın üzerinde."""
    if phrase.preposition in _LOCATIVES:
        return f"{noun_phrase(phrase.landmark, Case.GENITIVE)} {_LOCATIVES[phrase.preposition]}"
    return noun_phrase(phrase.landmark, _LOCATIVE_CASES[phrase.preposition])
