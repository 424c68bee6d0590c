"""The abstract sentences said in English."""

from __future__ import annotations

from functools import cache

from tools.phrasebook.grammar import (
    Action,
    Agreement,
    Anaphor,
    Clause,
    Comparison,
    Coordination,
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
from tools.phrasebook.lexicon import HE, SHE, THEY, Name, Noun, Preposition, Pronoun, Tense, Verb

# The word forms of English: plural, third person, -ing, comparative and the indefinite article.

_VOWELS = "aeiou"


def plural(noun: str) -> str:
    """The regular plural of a noun, and by the same spelling rule the third person of a verb."""
    if noun.endswith(("s", "x", "ch", "sh", "o")):
        return noun + "es" if noun not in ("photo", "piano") else noun + "s"
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def _closed_syllable(word: str) -> bool:
    """Whether a word is one syllable of one vowel letter and one final consonant, which doubles: run, big."""
    vowels = sum(letter in _VOWELS for letter in word)
    return vowels == 1 and len(word) >= 3 and word[-2] in _VOWELS and word[-1] not in "wxy" + _VOWELS


def _inflect_head(verb: str, ending: str) -> str:
    """Put an ending on the first word of a verb and keep its particle."""
    head, _, particle = verb.partition(" ")
    return f"{head}{ending} {particle}" if particle else head + ending


@cache
def third_person(verb: str) -> str:
    """Form the third person singular of a verb: goes, carries, looks at."""
    head, _, particle = verb.partition(" ")
    form = "has" if head == "have" else plural(head)
    return f"{form} {particle}" if particle else form


@cache
def progressive(verb: str) -> str:
    """Form the present participle of a verb: running, writing, looking at."""
    head, _, particle = verb.partition(" ")
    if _closed_syllable(head):
        head += head[-1]
    elif head.endswith("e") and not head.endswith("ee"):
        head = head[:-1]
    return _inflect_head(f"{head} {particle}".strip(), "ing")


def _syllables(word: str) -> int:
    """The number of vowel groups, a silent final e not counted."""
    stem = word[:-1] if word.endswith("e") else word
    letters = ["v" if letter in "aeiouy" else "c" for letter in stem]
    return sum(a == "v" and b != "v" for a, b in zip(letters, [*letters[1:], ""], strict=True))


@cache
def comparative(adjective: str) -> str:
    """Form the comparative of an adjective: bigger, happier, more famous."""
    irregular = {"good": "better", "bad": "worse"}
    if adjective in irregular:
        return irregular[adjective]
    if adjective.endswith("y") and _syllables(adjective) <= 2:
        return adjective[:-1] + "ier"
    if _syllables(adjective) > 1 and adjective != "quiet":
        return "more " + adjective
    if _closed_syllable(adjective):
        adjective += adjective[-1]
    return adjective + ("r" if adjective.endswith("e") else "er")


def indefinite_article(next_word: str) -> str:
    """`a` or `an`."""
    return "an" if next_word[0] in _VOWELS else "a"


_PREPOSITIONS = {
    Preposition.IN: "in",
    Preposition.ON: "on",
    Preposition.UNDER: "under",
    Preposition.BEHIND: "behind",
    Preposition.IN_FRONT_OF: "in front of",
    Preposition.NEAR: "near",
    Preposition.TO: "to",
    Preposition.AT: "at",
    Preposition.FROM: "from",
    Preposition.INTO: "in",
}
_QUESTION_WORDS = {
    Wh.WHAT: "what",
    Wh.WHERE: "where",
    Wh.WHERE_TO: "where",
    Wh.WHERE_FROM: "where",
    Wh.WHEN: "when",
    Wh.WHY: "why",
}
_HAVE = Verb("have", "had", "avoir", "", stative=True)


def english(sentence: Sentence) -> str:
    """The English text of a sentence, with its capital and its final mark."""
    if isinstance(sentence, Reason):
        words = [*_clause(sentence.result), "because", *_clause(sentence.cause)]
        return _finish(words, Mood.STATEMENT)
    if isinstance(sentence, Existence):
        return _finish(_existence(sentence), sentence.mood)
    return _finish(_clause(sentence), sentence.mood)


def _finish(words: list[str], mood: Mood) -> str:
    text = " ".join(word for word in words if word)
    return text[0].upper() + text[1:] + ".?!."[mood]


@cache
def _noun(noun: Noun, many: bool) -> str:
    if not many:
        return noun.english
    return noun.english_plural or plural(noun.english)


def _possessive(possessor: Nominal | None) -> str:
    if isinstance(possessor, Pronoun):
        return possessor.english_possessive
    if isinstance(possessor, Name):
        return possessor.text + "'s"
    assert isinstance(possessor, NounPhrase)
    text = nominal(possessor)
    return text + ("'" if text.endswith("s") else "'s")


def _determiner(phrase: NounPhrase, next_word: str, negative: bool) -> str:
    match phrase.determiner:
        case Determiner.DEFINITE:
            return "the"
        case Determiner.THIS:
            return "these" if phrase.plural else "this"
        case Determiner.THAT:
            return "those" if phrase.plural else "that"
        case Determiner.POSSESSED:
            return _possessive(phrase.possessor)
        case Determiner.MANY:
            return "many"
        case Determiner.EVERY:
            return "every"
        case Determiner.HOW_MANY:
            return "how many"
        case Determiner.INDEFINITE if negative:
            return "no"
        case Determiner.INDEFINITE if not phrase.plural and not phrase.noun.mass:
            return indefinite_article(next_word)
    return ""


def _noun_phrase(phrase: NounPhrase, negative: bool = False) -> str:
    words = [phrase.number.english] if phrase.number else []
    words += [adjective.english for adjective in phrase.adjectives]
    words.append(_noun(phrase.noun, phrase.plural))
    return " ".join([_determiner(phrase, words[0], negative), *words]).strip()


def _anaphor(anaphor: Anaphor) -> Pronoun | None:
    """The pronoun that takes up the antecedent; None stands for "it", which only animals and things have."""
    antecedent = anaphor.antecedent
    if isinstance(antecedent, Pronoun):
        return antecedent
    person, many, gender = agreement(antecedent)
    if many:
        return THEY if person == 3 else None
    if isinstance(antecedent, NounPhrase) and "person" not in antecedent.noun.kinds:
        return None
    return SHE if gender == "f" else HE


def nominal(subject: Nominal, is_object: bool = False) -> str:
    """A nominal as subject or as object."""
    if isinstance(subject, Pronoun):
        return subject.english_object if is_object else subject.english
    if isinstance(subject, Name):
        return subject.text
    if isinstance(subject, NounPhrase):
        return _noun_phrase(subject)
    if isinstance(subject, Coordination):
        return f"{nominal(subject.first, is_object)} and {nominal(subject.second, is_object)}"
    pronoun = _anaphor(subject)
    if pronoun is None:
        return "we" if agreement(subject).plural else "it"
    return pronoun.english


def locative(phrase: Locative) -> str:
    """A prepositional phrase."""
    return f"{_PREPOSITIONS[phrase.preposition]} {nominal(phrase.landmark)}"


def _be(tense: Tense, agree: Agreement) -> str:
    if tense is Tense.PRESENT:
        return ("am", "are", "is", "are", "are", "are")[agree.row]
    return ("was", "were", "was", "were", "were", "were")[agree.row]


def _verb_group(verb: Verb, clause: Clause, *, simple: bool, needs_auxiliary: bool) -> tuple[str, str]:
    """The auxiliary (empty where English has none) and the main verb."""
    agree = agreement(clause.subject)
    if clause.tense is Tense.FUTURE:
        return "will", verb.english
    if clause.tense is Tense.PRESENT and not simple:
        return _be(Tense.PRESENT, agree), progressive(verb.english)
    third = agree.row == 2 and clause.tense is Tense.PRESENT
    if needs_auxiliary:
        return ("did" if clause.tense is Tense.PAST else "does" if third else "do"), verb.english
    if clause.tense is Tense.PAST:
        return "", verb.english_past
    return "", third_person(verb.english) if third else verb.english


def _inverts(clause: Clause) -> bool:
    """Whether the auxiliary stands before the subject; a question about the subject keeps the order."""
    return clause.mood is Mood.QUESTION and clause.wh is not Wh.WHO


def _predicate(clause: Clause) -> tuple[str, list[str]]:
    """The auxiliary and everything after subject and negation."""
    predicate = clause.predicate
    needs_auxiliary = clause.negative or _inverts(clause)
    if isinstance(predicate, Action):
        return _action(predicate, clause, needs_auxiliary)
    if isinstance(predicate, Possession):
        auxiliary, verb = _verb_group(_HAVE, clause, simple=True, needs_auxiliary=needs_auxiliary)
        thing = "" if clause.wh is Wh.HOW_MANY else _noun_phrase(predicate.thing)
        return auxiliary, [verb, thing]
    future = clause.tense is Tense.FUTURE
    auxiliary = "will" if future else _be(clause.tense, agreement(clause.subject))
    words = ["be"] if future else []
    if isinstance(predicate, Location):
        words += [locative(predicate.locative)] if predicate.locative else []
    elif isinstance(predicate, Comparison):
        words.append(_comparison(predicate))
    else:
        words += [predicate.degree.name.lower() if predicate.degree else "", predicate.adjective.english]
    return auxiliary, words


def _comparison(comparison: Comparison) -> str:
    adjective, standard = comparison.adjective.english, nominal(comparison.standard, is_object=True)
    if comparison.degree > 0:
        return f"{comparative(adjective)} than {standard}"
    return f"less {adjective} than {standard}" if comparison.degree < 0 else f"as {adjective} as {standard}"


def _action(action: Action, clause: Clause, needs_auxiliary: bool) -> tuple[str, list[str]]:
    head = action.modal.verb if action.modal else action.verb
    simple = head.stative or action.habitual
    auxiliary, verb = _verb_group(head, clause, simple=simple, needs_auxiliary=needs_auxiliary)
    frequency = action.adverb if action.adverb and action.adverb.frequency else None
    words = [frequency.english if frequency else "", verb]
    if action.modal:
        words.append(f"to {action.verb.english}")
    words += _arguments(action)
    return auxiliary, words


def _arguments(action: Action) -> list[str]:
    """What follows the verb: object, recipient, manner, place, companion."""
    words = []
    if action.object:
        words.append(nominal(action.object, is_object=True))
    if action.recipient:
        words.append("to " + nominal(action.recipient, is_object=True))
    if action.adverb and not action.adverb.frequency:
        words.append(action.adverb.english)
    if action.locative:
        words.append(locative(action.locative))
    if action.companion:
        words.append("with " + nominal(action.companion, is_object=True))
    return words


def _negated(auxiliary: str, clause: Clause) -> list[str]:
    if not clause.negative:
        return [auxiliary]
    if clause.contracted and auxiliary != "am":
        return ["won't" if auxiliary == "will" else auxiliary + "n't"]
    return [auxiliary, "not"]


def _clause(clause: Clause) -> list[str]:
    if clause.mood in (Mood.COMMAND, Mood.REQUEST):
        return _command(clause)
    auxiliary, rest = _predicate(clause)
    subject, negation = nominal(clause.subject), _negated(auxiliary, clause)
    if not _inverts(clause):
        words = [subject, *negation, *rest]
    elif len(negation) == 2:
        words = [negation[0], subject, negation[1], *rest]
    else:
        words = [negation[0], subject, *rest]
    words = [*_question_word(clause), *words, "from" if clause.wh is Wh.WHERE_FROM else ""]
    if clause.time is None:
        return words
    return [clause.time.english, *words] if clause.time_first else [*words, clause.time.english]


def _question_word(clause: Clause) -> list[str]:
    if clause.wh is Wh.HOW_MANY and isinstance(clause.predicate, Possession):
        return [_noun_phrase(clause.predicate.thing)]
    return [_QUESTION_WORDS[clause.wh]] if clause.wh in _QUESTION_WORDS else []


def _command(clause: Clause) -> list[str]:
    assert isinstance(clause.predicate, Action)
    action = clause.predicate
    words = ["please"] if clause.mood is Mood.REQUEST else []
    if clause.negative:
        words.append("don't" if clause.contracted else "do not")
    return [*words, action.verb.english, *_arguments(action)]


def _existence(sentence: Existence) -> list[str]:
    agree = Agreement(3, sentence.thing.plural, "m")
    negative = sentence.negative
    thing = [_noun_phrase(sentence.thing, negative), locative(sentence.locative)]
    if sentence.tense is Tense.FUTURE:
        verb, rest = "will", ["be", *thing]
    else:
        verb, rest = _be(sentence.tense, agree), thing
    return [verb, "there", *rest] if sentence.mood is Mood.QUESTION else ["there", verb, *rest]
