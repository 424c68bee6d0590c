"""The split into held-out parts: combinations of content words decide which part a sentence belongs to."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import Literal, TypeAlias

from dikkat.lessons.phrasebook.entries import Name, Pronoun
from dikkat.lessons.phrasebook.grammar import (
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
