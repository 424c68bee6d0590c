"""From random sentences to distinct pairs, and to a split whose held-out combinations never occur in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from typing import Literal, TypeAlias

from tools.phrasebook.english import english, nominal
from tools.phrasebook.french import french
from tools.phrasebook.grammar import (
    Action,
    Anaphor,
    Clause,
    Comparison,
    Existence,
    Location,
    Nominal,
    NounPhrase,
    Possession,
    Reason,
    Sentence,
)
from tools.phrasebook.lexicon import Name, Pronoun
from tools.phrasebook.nominals import Dice
from tools.phrasebook.sampling import sample
from tools.phrasebook.turkish import turkish

from dikkat.data.lessons import Link, Phrase, PhrasebookSplit
from dikkat.lessons.phrasebook import COLUMNS, REPEATED, languages_of_pair

# The split into held-out parts: combinations of content words decide which part a sentence belongs to.

Combination: TypeAlias = tuple[str, str, str]
Part: TypeAlias = Literal["train", "validation", "test"]

_WITHOUT_GENDER = {"he": "o", "she": "o"}
_TEST_PERCENT = 4
_VALIDATION_PERCENT = 2


def _head(nominal: Nominal | None) -> str:
    if nominal is None:
        return ""
    if isinstance(nominal, NounPhrase):
        return nominal.noun.english
    if isinstance(nominal, Pronoun):
        return nominal.english
    if isinstance(nominal, Name):
        return nominal.text
    if isinstance(nominal, Anaphor):
        return _head(nominal.antecedent)
    return f"{_head(nominal.first)}+{_head(nominal.second)}"


def _predicate(clause: Clause) -> tuple[str, str]:
    """The word of the predicate and the head of its complement."""
    predicate = clause.predicate
    if isinstance(predicate, Action):
        goal = predicate.locative if predicate.verb.goal is not None else None
        return predicate.verb.english, _head(predicate.object or (goal.landmark if goal else None))
    if isinstance(predicate, Possession):
        return "have", _head(predicate.thing)
    if isinstance(predicate, Location):
        return "be", _head(predicate.locative.landmark) if predicate.locative else ""
    return predicate.adjective.english, _head(predicate.standard) if isinstance(predicate, Comparison) else ""


def combinations(sentence: Sentence) -> tuple[Combination, ...]:
    """Subject, predicate and complement of each clause, by their heads.

    Tense, negation, question, number, determiners, adjectives, adverbs, place and time do not count: all sentences
    about (cat, eat, apple) are on the same side of the split.
    """
    if isinstance(sentence, Reason):
        return combinations(sentence.result) + combinations(sentence.cause)
    if isinstance(sentence, Existence):
        return (("there", _head(sentence.thing), _head(sentence.locative.landmark)),)
    return ((_head(sentence.subject), *_predicate(sentence)),)


@cache
def assigned_part(combination: Combination) -> Part:
    """The part of a combination, by a hash that no seed and no process changes."""
    digest = blake2b("|".join(combination).encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "big") % 100
    if bucket < _TEST_PERCENT:
        return "test"
    return "validation" if bucket < _TEST_PERCENT + _VALIDATION_PERCENT else "train"


def part_of_sentence(sentence: Sentence, source_language: str = "en") -> Part | None:
    """The part of a sentence; one held-out combination takes it out of training, two different parts out of all.

    Where the source is Turkish, a combination of he is the same as that of she.
    """
    combined = combinations(sentence)
    if source_language == "tr":
        combined = tuple((_WITHOUT_GENDER.get(first, first), *rest) for first, *rest in combined)  # type: ignore[misc]
    held_out = {assigned_part(combination) for combination in combined} - {"train"}
    if not held_out:
        return "train"
    return held_out.pop() if len(held_out) == 1 else None


def pronoun_link(sentence: Sentence) -> Link | None:
    """Return where the pronoun after "because" stands in the English text, and the noun that it means.

    None for a sentence without "because", and where a name, a pronoun or two persons are meant.
    """
    if not isinstance(sentence, Reason) or not isinstance(sentence.cause.subject, Anaphor):
        return None
    antecedent = sentence.cause.subject.antecedent
    if not isinstance(antecedent, NounPhrase):
        return None
    words = english(sentence).lower().split()
    # the noun is the last word of its phrase, and no other noun of the sentence is the same
    return Link(words.index("because") + 1, words.index(nominal(antecedent).split()[-1].lower()))


_MIN_WORDS, _MAX_WORDS = 3, 14
_SAY: dict[str, Callable[[Sentence], str]] = {"en": english, "fr": french, "tr": turkish}


def _sentences(seed: int, language: str) -> Iterator[tuple[Sentence, str]]:
    """An endless stream of sentences with their text in a language, each text once."""
    dice, seen, say = Dice(seed), set[str](), _SAY[language]
    while True:
        sentence = sample(dice)
        source = say(sentence)
        if source not in seen and _MIN_WORDS <= english(sentence).count(" ") + 1 <= _MAX_WORDS:
            seen.add(source)
            yield sentence, source


def phrasebook(pair: str, count: int = 20_000, seed: int = 1) -> list[Phrase]:
    """Distinct sentences with their translation, of one of `PAIRS`; "fr" and "tr" are what English is translated into.

    They are a function of (pair, count, seed) alone; the English of a seed is the same for both languages. English
    determines its translation; Turkish, which has one word for he and she, does not. Raises `UsageError` for another
    pair.
    """
    source_language, target_language = languages_of_pair(pair)
    translate = _SAY[target_language]
    stream = zip(range(1, count + 1), _sentences(seed, source_language), strict=False)
    return [Phrase(source, translate(sentence), line) for line, (sentence, source) in stream]


def phrasebook_split(
    pair: str, train: int = 25_000, validation: int = 500, test: int = 1000, seed: int = 1
) -> PhrasebookSplit:
    """Training, validation and test pairs; no combination of a held-out pair occurs in any form in training.

    What a combination is, `holdout.combinations` says; which part it belongs to depends on nothing else, so a test part
    of one seed is unseen by a model trained with another. Raises `UsageError` like `phrasebook`.
    """
    source_language, target_language = languages_of_pair(pair)
    translate = _SAY[target_language]
    wanted: dict[Part, int] = {"train": train, "validation": validation, "test": test}
    parts: dict[Part, list[Phrase]] = {part: [] for part in wanted}
    missing = train + validation + test
    for sentence, source in _sentences(seed, source_language):
        part = part_of_sentence(sentence, source_language)
        if part is None or len(parts[part]) == wanted[part]:
            continue
        link = pronoun_link(sentence) if source_language == "en" else None
        parts[part].append(Phrase(source, translate(sentence), len(parts[part]) + 1, link))
        missing -= 1
        if not missing:
            break
    return PhrasebookSplit(**parts)


def rows(count: int, seed: int = 1) -> Iterator[tuple[str, ...]]:
    """Yield lines of the data that the package ships: so many that there are `count` distinct sentences a language."""
    told = set[str]()
    for sentence, source in _sentences(seed, "en"):
        turkish_text, link = turkish(sentence), pronoun_link(sentence)
        repeated = turkish_text in told
        told.add(turkish_text)
        row = {
            "en": source,
            "fr": french(sentence),
            "tr": turkish_text,
            "part": part_of_sentence(sentence) or "",
            "part_from_tr": REPEATED if repeated else part_of_sentence(sentence, "tr") or "",
            "link": f"{link.row}-{link.column}" if link else "",
        }
        yield tuple(row[column] for column in COLUMNS)
        if len(told) == count:
            return
