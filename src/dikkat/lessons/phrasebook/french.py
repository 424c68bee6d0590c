"""The abstract sentences said in French."""

from __future__ import annotations

from typing import NamedTuple

from dikkat.lessons.phrasebook.entries import Pronoun, Tense
from dikkat.lessons.phrasebook.french_forms import (
    NO_BREAK_SPACE,
    agree,
    auxiliary,
    future,
    imperative,
    imperfect,
    invert,
    join,
    participle,
    present,
)
from dikkat.lessons.phrasebook.french_phrases import (
    locative,
    nominal,
    noun_phrase,
    stressed,
    subject_pronoun,
    with_preposition,
)
from dikkat.lessons.phrasebook.grammar import (
    Action,
    Agreement,
    Clause,
    Comparison,
    Degree,
    Existence,
    Location,
    Mood,
    Possession,
    Reason,
    Sentence,
    Wh,
    agreement,
)
from dikkat.lessons.phrasebook.lexicon import I

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
