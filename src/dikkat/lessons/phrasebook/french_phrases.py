"""Noun phrases and prepositions said in French: articles, contraction, place and agreement of adjectives."""

from __future__ import annotations

from dikkat.lessons.phrasebook.entries import Adjective, Name, Preposition, Pronoun
from dikkat.lessons.phrasebook.french_forms import agree, before_vowel, join, plural, starts_with_vowel
from dikkat.lessons.phrasebook.grammar import (
    Anaphor,
    Coordination,
    Determiner,
    Locative,
    Nominal,
    NounPhrase,
    agreement,
)

_PREPOSITIONS = {
    Preposition.IN: "dans",
    Preposition.ON: "sur",
    Preposition.UNDER: "sous",
    Preposition.BEHIND: "derrière",
    Preposition.IN_FRONT_OF: "devant",
    Preposition.NEAR: "près de",
    Preposition.TO: "à",
    Preposition.AT: "à",
    Preposition.FROM: "de",
    Preposition.INTO: "dans",
}
# Rows: owner je tu il nous vous ils; columns: masculine, feminine, plural.
_POSSESSIVES = (
    ("mon", "ma", "mes"),
    ("ton", "ta", "tes"),
    ("son", "sa", "ses"),
    ("notre", "notre", "nos"),
    ("votre", "votre", "vos"),
    ("leur", "leur", "leurs"),
)
_CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def _attribute(adjective: Adjective, phrase: NounPhrase) -> str:
    return agree(adjective.french, phrase.noun.gender, phrase.plural)


def _core(phrase: NounPhrase) -> list[str]:
    """Number, adjectives and noun in their order, with bel, nouvel, vieil before a vowel."""
    before = [_attribute(adjective, phrase) for adjective in phrase.adjectives if adjective.before]
    after = [_attribute(adjective, phrase) for adjective in phrase.adjectives if not adjective.before]
    noun = plural(phrase.noun.french) if phrase.plural else phrase.noun.french
    if before and not phrase.plural and starts_with_vowel(noun):
        before[-1] = before_vowel(before[-1])
    number = [phrase.number.french] if phrase.number else []
    return [*number, *before, noun, *after]


def _definite(phrase: NounPhrase) -> str:
    if phrase.plural:
        return "les"
    return "la" if phrase.noun.gender == "f" else "le"


def _indefinite(phrase: NounPhrase, next_word: str, negative: bool) -> str:
    """un, une, des; du, de la for a mass; `de` after a negation and before a plural adjective (de petites maisons)."""
    if negative:
        return "de"
    if phrase.noun.mass:
        return "de la" if phrase.noun.gender == "f" or starts_with_vowel(next_word) else "du"
    if phrase.plural:
        return "de" if any(adjective.before for adjective in phrase.adjectives) else "des"
    return "une" if phrase.noun.gender == "f" else "un"


def _possessive(owner: Pronoun, phrase: NounPhrase, next_word: str) -> str:
    row = _POSSESSIVES[owner.person - 1 + 3 * owner.plural]
    if phrase.plural:
        return row[2]
    # A feminine noun takes the masculine form before a vowel: mon école.
    return row[1] if phrase.noun.gender == "f" and not starts_with_vowel(next_word) else row[0]


def _demonstrative(phrase: NounPhrase, next_word: str) -> str:
    if phrase.plural:
        return "ces"
    if phrase.noun.gender == "f":
        return "cette"
    return "cet" if starts_with_vowel(next_word) else "ce"


def _determiner(phrase: NounPhrase, next_word: str, negative: bool) -> str:
    match phrase.determiner:
        case Determiner.INDEFINITE:
            return _indefinite(phrase, next_word, negative)
        case Determiner.THIS | Determiner.THAT:
            return _demonstrative(phrase, next_word)
        case Determiner.MANY:
            return "beaucoup de"
        case Determiner.EVERY:
            return "chaque"
        case Determiner.HOW_MANY:
            return "combien de"
        case Determiner.COUNTED:
            return ""
        case Determiner.POSSESSED if isinstance(phrase.possessor, Pronoun):
            return _possessive(phrase.possessor, phrase, next_word)
    return _definite(phrase)


def noun_phrase(phrase: NounPhrase, *, negative: bool = False, preposition: str = "") -> str:
    """A noun phrase, after a preposition that contracts with its article if there is one.

    `negative` says that it is the object of a negated verb, whose indefinite article is `de`.
    """
    core = _core(phrase)
    article = _determiner(phrase, core[0], negative)
    words = [*_contract(preposition, article, core[0]), *core]
    if phrase.determiner is Determiner.POSSESSED and not isinstance(phrase.possessor, Pronoun):
        assert phrase.possessor is not None
        words.append(with_preposition("de", phrase.possessor))
    return join(words)


def _contract(preposition: str, article: str, next_word: str) -> list[str]:
    """de + le -> du, à + les -> aux; nothing contracts with l'."""
    head, _, last = preposition.rpartition(" ")
    pair = f"{last} {article}"
    if pair not in _CONTRACTIONS or (article == "le" and starts_with_vowel(next_word)):
        return [preposition, article]
    return [head, _CONTRACTIONS[pair]]


def nominal(subject: Nominal, *, negative: bool = False) -> str:
    """A nominal as subject or direct object; a pronoun gives its subject clitic."""
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, negative=negative)
    if isinstance(subject, Pronoun):
        return subject.french
    if isinstance(subject, Name):
        return subject.text
    if isinstance(subject, Anaphor):
        return subject_pronoun(subject)
    return f"{nominal(subject.first)} et {stressed(subject.second)}"


def stressed(subject: Nominal) -> str:
    """A nominal where no clitic can stand: after a preposition, `que` or `et`."""
    return subject.stressed if isinstance(subject, Pronoun) else nominal(subject)


def subject_pronoun(subject: Nominal) -> str:
    """The clitic that agrees with a nominal: je to ils, elle, elles."""
    person, many, gender = agreement(subject)
    if person < 3:
        return (("je", "tu"), ("nous", "vous"))[many][person - 1]
    return ("elle" if gender == "f" else "il") + ("s" if many else "")


def with_preposition(preposition: str, subject: Nominal) -> str:
    """A nominal after a preposition: au jardin, de l'école, avec moi, d'Anna."""
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, preposition=preposition)
    if isinstance(subject, Coordination):
        return f"{with_preposition(preposition, subject.first)} et {with_preposition(preposition, subject.second)}"
    return join([preposition, stressed(subject)])


def locative(phrase: Locative) -> str:
    """A prepositional phrase of place."""
    return noun_phrase(phrase.landmark, preposition=_PREPOSITIONS[phrase.preposition])
