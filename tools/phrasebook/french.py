"""The abstract sentences said in French."""

from __future__ import annotations

from typing import NamedTuple

from tools.phrasebook.french_forms import (
    NO_BREAK_SPACE,
    agree,
    auxiliary,
    before_vowel,
    future,
    imperative,
    imperfect,
    invert,
    join,
    participle,
    plural,
    present,
    starts_with_vowel,
)
from tools.phrasebook.grammar import (
    Action,
    Agreement,
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
    Nominal,
    NounPhrase,
    Possession,
    Reason,
    Sentence,
    Wh,
    agreement,
)
from tools.phrasebook.lexicon import Adjective, I, Name, Preposition, Pronoun, Tense

# Noun phrases and prepositions said in French: articles, contraction, place and agreement of adjectives.

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


_MARKS = (".", NO_BREAK_SPACE + "?", NO_BREAK_SPACE + "!", ", s'il te plaît.")
_QUESTION_WORDS = {
    Wh.WHERE: "où",
    Wh.WHERE_TO: "où",
    Wh.WHERE_FROM: "d'où",
    Wh.WHEN: "quand",
    Wh.WHY: "pourquoi",
}


_DEGREES = {Degree.VERY: "très", Degree.TOO: "trop"}


class _VerbGroup(NamedTuple):
    """The parts between which French puts clitics, negation and an inverted subject."""

    clitic: str
    finite: str
    after: list[str]


def french(sentence: Sentence) -> str:
    """The French text of a sentence, with its capital and its final mark."""
    if isinstance(sentence, Reason):
        return _finish([*_clause(sentence.result), "parce que", *_clause(sentence.cause)], Mood.STATEMENT)
    if isinstance(sentence, Existence):
        return _finish(_existence(sentence), sentence.mood)
    return _finish(_clause(sentence), sentence.mood)


def _finish(words: list[str], mood: Mood) -> str:
    text = join(words)
    return text[0].upper() + text[1:] + _MARKS[mood]


def _conjugate(infinitive: str, tense: Tense, row: int) -> str:
    """The one-word tenses; the past of a state is the imparfait."""
    return (present, imperfect, future)[tense](infinitive)[row]


def _compound(infinitive: str, subject: Agreement, direct: Agreement | None) -> tuple[str, str]:
    """The passé composé: the participle agrees with the subject after être, with a preceding object after avoir."""
    helper = auxiliary(infinitive)
    target = subject if helper == "être" else direct
    form = participle(infinitive)
    return present(helper)[subject.row], agree(form, target.gender, target.plural) if target else form


def _clitic(action: Action) -> str:
    """The pronoun that stands before the verb, if the object or the recipient is one."""
    if isinstance(action.recipient, Pronoun):
        return action.recipient.dative
    if not isinstance(action.object, Pronoun):
        return ""
    return action.object.dative if action.verb.to else action.object.direct


def _direct_agreement(action: Action) -> Agreement | None:
    return agreement(action.object) if isinstance(action.object, Pronoun) and not action.verb.to else None


def _verb_group(clause: Clause) -> _VerbGroup:
    predicate, subject = clause.predicate, agreement(clause.subject)
    if not isinstance(predicate, Action):
        verb = "avoir" if isinstance(predicate, Possession) else "être"
        return _VerbGroup("", _conjugate(verb, clause.tense, subject.row), [])
    head = predicate.modal.verb if predicate.modal else predicate.verb
    clitic = _clitic(predicate)
    infinitive = [predicate.modal.linker, clitic, predicate.verb.french] if predicate.modal else []
    if predicate.modal:
        clitic = ""
    if clause.tense is not Tense.PAST or head.imperfect:
        return _VerbGroup(clitic, _conjugate(head.french, clause.tense, subject.row), infinitive)
    direct = None if predicate.modal else _direct_agreement(predicate)
    finite, form = _compound(head.french, subject, direct)
    return _VerbGroup(clitic, finite, [form, *infinitive])


def _negation(clause: Clause) -> tuple[str, str]:
    predicate = clause.predicate
    if isinstance(predicate, Action) and predicate.adverb and predicate.adverb.never:
        return "ne", "jamais"
    return ("ne", "pas") if clause.negative else ("", "")


def _frequency(clause: Clause) -> str:
    """The adverb after the finite verb; `jamais` already stands there as a negation."""
    predicate = clause.predicate
    if not isinstance(predicate, Action) or predicate.adverb is None or predicate.adverb.never:
        return ""
    return predicate.adverb.french if predicate.adverb.frequency else ""


def _complements(clause: Clause) -> list[str]:
    predicate = clause.predicate
    negative = bool(_negation(clause)[0])
    if isinstance(predicate, Action):
        return _arguments(predicate, negative)
    if isinstance(predicate, Possession):
        return [] if clause.wh is Wh.HOW_MANY else [noun_phrase(predicate.thing, negative=negative)]
    if isinstance(predicate, Location):
        return [locative(predicate.locative)] if predicate.locative else []
    _, many, gender = agreement(clause.subject)
    form = agree(predicate.adjective.french, gender, many)
    if isinstance(predicate, Comparison):
        return _comparison(predicate, form)
    return [_DEGREES[predicate.degree], form] if predicate.degree else [form]


def _comparison(comparison: Comparison, form: str) -> list[str]:
    degree = ("aussi", "plus", "moins")[comparison.degree]
    if degree == "plus" and form.startswith("bon"):
        return [form.replace("bonne", "meilleure").replace("bon", "meilleur"), "que", stressed(comparison.standard)]
    return [degree, form, "que", stressed(comparison.standard)]


def _arguments(action: Action, negative: bool) -> list[str]:
    """What follows the verb: object, recipient, manner, place, companion."""
    words = []
    if action.object and not isinstance(action.object, Pronoun):
        thing = with_preposition("à", action.object) if action.verb.to else nominal(action.object, negative=negative)
        words.append(thing)
    if action.recipient and not isinstance(action.recipient, Pronoun):
        words.append(with_preposition("à", action.recipient))
    if action.adverb and not action.adverb.frequency:
        words.append(action.adverb.french)
    if action.locative:
        words.append(locative(action.locative))
    if action.companion:
        words.append(with_preposition("avec", action.companion))
    return words


def _clause(clause: Clause) -> list[str]:
    if clause.mood in (Mood.COMMAND, Mood.REQUEST):
        return _command(clause)
    words = _question(clause) if clause.mood is Mood.QUESTION else _statement(clause)
    if clause.time is None:
        return words
    return [clause.time.french + ",", *words] if clause.time_first else [*words, clause.time.french]


def _statement(clause: Clause) -> list[str]:
    group, (ne, pas) = _verb_group(clause), _negation(clause)
    verb = [ne, group.clitic, group.finite, pas, _frequency(clause), *group.after]
    return [nominal(clause.subject), *verb, *_complements(clause)]


def _question(clause: Clause) -> list[str]:
    """A pronoun is inverted (vois-tu), a noun keeps its place after est-ce que, and so does je."""
    if clause.wh is Wh.WHO:
        return _statement(clause)
    if clause.wh is Wh.WHAT:
        return ["qu'est-ce que", *_statement(clause)]
    word = _question_word(clause)
    if isinstance(clause.predicate, Location) and clause.predicate.locative is None:
        return [word, *_inverted(clause)]
    if isinstance(clause.subject, Pronoun) and clause.subject is not I:
        return [word, *_inverted(clause)]
    return [word, "est-ce que", *_statement(clause)]


def _question_word(clause: Clause) -> str:
    if clause.wh is Wh.HOW_MANY and isinstance(clause.predicate, Possession):
        return noun_phrase(clause.predicate.thing)
    return _QUESTION_WORDS[clause.wh] if clause.wh else ""


def _inverted(clause: Clause) -> list[str]:
    group, (ne, pas) = _verb_group(clause), _negation(clause)
    if isinstance(clause.subject, Pronoun):
        verb = [invert(group.finite, subject_pronoun(clause.subject))]
    else:
        verb = [group.finite, nominal(clause.subject)]
    return [ne, group.clitic, *verb, pas, _frequency(clause), *group.after, *_complements(clause)]


def _command(clause: Clause) -> list[str]:
    """regarde-le, but ne le regarde pas."""
    assert isinstance(clause.predicate, Action)
    action = clause.predicate
    verb, clitic = imperative(action.verb.french), _clitic(action)
    rest = _arguments(action, clause.negative)
    if clause.negative:
        return ["ne", clitic, verb, "pas", *rest]
    if clitic:
        verb += "-" + ("moi" if clitic == "me" else clitic)
    return [verb, *rest]


def _existence(sentence: Existence) -> list[str]:
    verb = _conjugate("avoir", sentence.tense, 2)
    rest = [noun_phrase(sentence.thing, negative=sentence.negative), locative(sentence.locative)]
    if sentence.mood is Mood.QUESTION:
        return ["y", invert(verb, "il"), *rest]
    return ["il n'y", verb, "pas", *rest] if sentence.negative else ["il y", verb, *rest]
