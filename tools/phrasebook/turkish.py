"""The abstract sentences said in Turkish."""

from __future__ import annotations

from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Determiner,
    Existence,
    Location,
    Locative,
    Mood,
    Nominal,
    NounPhrase,
    Possession,
    Quality,
    Reason,
    Sentence,
    Wh,
    agreement,
    is_definite,
)
from tools.phrasebook.lexicon import THEY, Adjective, Case, Name, Preposition, Pronoun, Tense
from tools.phrasebook.turkish_forms import (
    capitalise,
    copula,
    existential,
    finite_verb,
    infinitive,
    name_form,
    noun_form,
    past_progressive,
)

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


_QUESTION_WORDS = {
    Wh.WHO: "kim",
    Wh.WHAT: "ne",
    Wh.WHERE: "nerede",
    Wh.WHERE_TO: "nereye",
    Wh.WHERE_FROM: "nereden",
    Wh.WHEN: "ne zaman",
    Wh.WHY: "neden",
}
# Words of one syllable that soften all the same.
_OBLIQUES = {"genç": "genc"}


def turkish(sentence: Sentence) -> str:
    """The Turkish text of a sentence, with its capital and its final mark."""
    if isinstance(sentence, Reason):
        *words, last = _clause(sentence.result)
        return _finish([*words, last + ",", "çünkü", *_clause(sentence.cause)], Mood.STATEMENT)
    if isinstance(sentence, Existence):
        return _finish(_existence(sentence), sentence.mood)
    return _finish(_clause(sentence), sentence.mood)


def _finish(words: list[str], mood: Mood) -> str:
    return capitalise(" ".join(word for word in words if word)) + ".?!."[mood]


def _person(phrase: Nominal) -> int:
    """The personal ending; a plural noun beside its verb leaves the verb singular (kızlar gülüyor)."""
    index = agreement(phrase).row
    is_silent = isinstance(phrase, Anaphor) and phrase.of_subject
    return 2 if index == 5 and phrase is not THEY and not is_silent else index


def _asks(clause: Clause) -> bool:
    """Whether the particle mI is needed: a question without a question word."""
    return clause.mood is Mood.QUESTION and clause.wh is None


def _clause(clause: Clause) -> list[str]:
    predicate = clause.predicate
    if isinstance(predicate, Action):
        words = _command(clause, predicate) if clause.mood >= Mood.COMMAND else _action(clause, predicate)
    elif isinstance(predicate, Possession):
        words = _possession(clause, predicate)
    else:
        words = [subject(clause.subject), _time(clause), _nominal_predicate(clause)]
    words = [word for word in words if word]
    return [clause.time.turkish, *words] if clause.time and clause.time_first else words


def _time(clause: Clause) -> str:
    """The time after the subject, where it stands when it does not open the sentence."""
    return clause.time.turkish if clause.time and not clause.time_first else ""


def _nominal_predicate(clause: Clause) -> str:
    predicate, oblique = clause.predicate, ""
    if isinstance(predicate, Location):
        word = locative(predicate.locative) if predicate.locative else "nerede"
    else:
        assert isinstance(predicate, Quality | Comparison)
        adjective = adjective_word(predicate.adjective, kinds_of(clause.subject))
        word = _degree(predicate, adjective)
        if adjective in _OBLIQUES:
            oblique = word.removesuffix(adjective) + _OBLIQUES[adjective]
    return copula(word, clause.tense, _person(clause.subject), clause.negative, _asks(clause), oblique)


def _degree(predicate: Quality | Comparison, adjective: str) -> str:
    if isinstance(predicate, Quality):
        return f"çok {adjective}" if predicate.degree else adjective
    if predicate.degree == 0:
        genitive = isinstance(predicate.standard, Pronoun)
        standard = nominal(predicate.standard, Case.GENITIVE if genitive else Case.NOMINATIVE)
        return f"{standard} kadar {adjective}"
    standard = nominal(predicate.standard, Case.ABLATIVE)
    return f"{standard} daha {adjective}" if predicate.degree > 0 else f"{standard} daha az {adjective}"


def _possession(clause: Clause, predicate: Possession) -> list[str]:
    """kızın üç kitabı var: the owner in the genitive, the thing with the suffix of its owner."""
    owner = clause.subject
    dropped = isinstance(owner, Pronoun) and owner.person < 3
    thing = noun_phrase(predicate.thing, owner=owner_index(owner, reflexive=False), bare=clause.negative)
    verb = existential(clause.tense, clause.negative, _asks(clause))
    return ["" if dropped else nominal(owner, Case.GENITIVE), _time(clause), thing, verb]


def _negated(clause: Clause, action: Action) -> bool:
    return clause.negative or bool(action.adverb and action.adverb.never)


def _action(clause: Clause, action: Action) -> list[str]:
    """Subject, time, place, definite object, adverb or question word, indefinite object, verb."""
    if action.modal:
        head, before = action.modal.verb, infinitive(action.verb.turkish, action.modal.suffix)
    else:
        head, before = action.verb, ""
    person, negative, asks = _person(clause.subject), _negated(clause, action), _asks(clause)
    if head.imperfect and clause.tense is Tense.PAST:
        verb = past_progressive(head.turkish, person, negative, asks)
    else:
        verb = finite_verb(head.turkish, clause.tense, person, negative, asks)
    # "kim" stands with the other question words, before the verb.
    agent = "" if clause.wh is Wh.WHO else subject(clause.subject)
    return [agent, _time(clause), *_arguments(clause, action), before, verb]


def _arguments(clause: Clause, action: Action) -> list[str]:
    thing = _object(clause, action)
    early = action.object is not None and is_definite(action.object)
    return [
        locative(action.locative) if action.locative and not action.verb.goal else "",
        nominal(action.companion, Case.INSTRUMENTAL) if action.companion else "",
        thing if early else "",
        nominal(action.recipient, Case.DATIVE) if action.recipient else "",
        action.adverb.turkish if action.adverb else "",
        _QUESTION_WORDS.get(clause.wh, "") if clause.wh else "",
        "" if early else thing,
        locative(action.locative) if action.locative and action.verb.goal else "",
    ]


def _object(clause: Clause, action: Action) -> str:
    if action.object is None:
        return ""
    return direct_object(action.object, action.verb.case, negative=_negated(clause, action))


def _command(clause: Clause, action: Action) -> list[str]:
    """The bare stem: kapıyı aç, kapıyı açma."""
    verb = infinitive(action.verb.turkish, "mA") if clause.negative else action.verb.turkish
    please = "lütfen" if clause.mood is Mood.REQUEST else ""
    return [please, *_arguments(clause, action), verb]


def _existence(sentence: Existence) -> list[str]:
    thing = noun_phrase(sentence.thing, bare=sentence.negative)
    asks = sentence.mood is Mood.QUESTION
    return [locative(sentence.locative), thing, existential(sentence.tense, sentence.negative, asks)]
