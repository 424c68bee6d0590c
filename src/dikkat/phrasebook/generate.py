"""From random sentences to distinct pairs, and to a split whose held-out combinations never occur in training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from dikkat.phrasebook.dice import Dice
from dikkat.phrasebook.english import english
from dikkat.phrasebook.french import french
from dikkat.phrasebook.grammar import Sentence
from dikkat.phrasebook.holdout import Part, part_of_sentence
from dikkat.phrasebook.sampling import sample
from dikkat.phrasebook.turkish import turkish
from dikkat_runtime.errors import UsageError, nearest

Language: TypeAlias = Literal["fr", "tr"]

MAX_PAIRS = 200_000
"""The most pairs of one part that may be asked for; the grammar holds millions, a held-out part far fewer."""
_MIN_WORDS, _MAX_WORDS = 3, 14
_TRANSLATORS = {"fr": french, "tr": turkish}


class Phrase(NamedTuple):
    """A sentence, its translation, and its number, counted from 1."""

    source: str
    target: str
    line: int


class PhrasebookSplit(NamedTuple):
    """Pairs to learn from and pairs whose combinations of content words never occur among those."""

    train: list[Phrase]
    validation: list[Phrase]
    test: list[Phrase]


def _check(language: str, **counts: int) -> None:
    if language not in _TRANSLATORS:
        hint = nearest(language, _TRANSLATORS) or "; choose fr or tr"
        raise UsageError(f'the phrasebook has no language "{language}"{hint}')
    for name, count in counts.items():
        if not 1 <= count <= MAX_PAIRS:
            raise UsageError(f"{name} must be between 1 and {MAX_PAIRS} pairs of the phrasebook, but it is {count}")


def _sentences(seed: int) -> Iterator[tuple[Sentence, str]]:
    """An endless stream of sentences with their English, each English text once."""
    dice, seen = Dice(seed), set[str]()
    while True:
        sentence = sample(dice)
        source = english(sentence)
        if source not in seen and _MIN_WORDS <= source.count(" ") + 1 <= _MAX_WORDS:
            seen.add(source)
            yield sentence, source


def phrasebook(language: Language, count: int = 20_000, seed: int = 1) -> list[Phrase]:
    """Distinct English sentences with their French ("fr") or Turkish ("tr") translation.

    The pairs are a function of (language, count, seed) alone; the English of a seed is the same for both languages.
    Raises UsageError for another language or a count outside 1 to `MAX_PAIRS`.
    """
    _check(language, count=count)
    translate = _TRANSLATORS[language]
    stream = zip(range(1, count + 1), _sentences(seed), strict=False)
    return [Phrase(source, translate(sentence), line) for line, (sentence, source) in stream]


def phrasebook_split(
    language: Language, train: int = 25_000, validation: int = 500, test: int = 1000, seed: int = 1
) -> PhrasebookSplit:
    """Training, validation and test pairs; no combination of a held-out pair occurs in any form in training.

    What a combination is, `holdout.combinations` says; which part it belongs to depends on nothing else, so a test part
    of one seed is unseen by a model trained with another. Raises UsageError like `phrasebook`.
    """
    _check(language, train=train, validation=validation, test=test)
    translate = _TRANSLATORS[language]
    wanted: dict[Part, int] = {"train": train, "validation": validation, "test": test}
    parts: dict[Part, list[Phrase]] = {part: [] for part in wanted}
    missing = train + validation + test
    for sentence, source in _sentences(seed):
        part = part_of_sentence(sentence)
        if part is None or len(parts[part]) == wanted[part]:
            continue
        parts[part].append(Phrase(source, translate(sentence), len(parts[part]) + 1))
        missing -= 1
        if not missing:
            break
    return PhrasebookSplit(**parts)
