"""From random sentences to distinct pairs, and to a split whose held-out combinations never occur in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dikkat.phrasebook.dice import Dice
from dikkat.phrasebook.english import english, nominal
from dikkat.phrasebook.french import french
from dikkat.phrasebook.grammar import Anaphor, NounPhrase, Reason, Sentence
from dikkat.phrasebook.holdout import Part, part_of_sentence
from dikkat.phrasebook.sampling import sample
from dikkat.phrasebook.turkish import turkish
from dikkat_runtime.errors import UsageError, nearest
from dikkat_runtime.messages import msg


class Link(NamedTuple):
    """Two words of one text, counted from 0: the word of `row` means that of `column`."""

    row: int
    column: int


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


PAIRS = ("en-fr", "en-tr", "tr-en")
"""What is translated into what; a language alone, "fr", is what English is translated into."""
MAX_PAIRS = 200_000
"""The most pairs of one part that may be asked for; the grammar holds millions, a held-out part far fewer."""
_MIN_WORDS, _MAX_WORDS = 3, 14
_SAY: dict[str, Callable[[Sentence], str]] = {"en": english, "fr": french, "tr": turkish}


class Phrase(NamedTuple):
    """A sentence, its translation, and its number, counted from 1."""

    source: str
    target: str
    line: int
    link: Link | None = None
    """The pronoun of an English source and the noun that it means, where it has both."""


class PhrasebookSplit(NamedTuple):
    """Pairs to learn from and pairs whose combinations of content words never occur among those."""

    train: list[Phrase]
    validation: list[Phrase]
    test: list[Phrase]


def languages_of_pair(pair: str) -> tuple[str, str]:
    """The languages of a pair, or English and the one that is named. Raises `UsageError` for what is no pair."""
    whole = pair if "-" in pair else f"en-{pair}"
    if whole not in PAIRS:
        hint = nearest(pair, (*PAIRS, "fr", "tr")) or msg("; choose one of {pairs}").fill(", ".join(PAIRS))
        raise UsageError('the phrasebook has no pair "{pair}"{hint}').fill(pair, hint)
    source, _, target = whole.partition("-")
    return source, target


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if not 1 <= count <= MAX_PAIRS:
            raise UsageError(
                "{name} must be between 1 and {max_pairs} pairs of the phrasebook, but it is {count}"
            ).fill(name, MAX_PAIRS, count)


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
    determines its translation; Turkish, which has one word for he and she, does not. Raises UsageError for another
    pair or a count outside 1 to `MAX_PAIRS`.
    """
    source_language, target_language = languages_of_pair(pair)
    _check(count=count)
    translate = _SAY[target_language]
    stream = zip(range(1, count + 1), _sentences(seed, source_language), strict=False)
    return [Phrase(source, translate(sentence), line) for line, (sentence, source) in stream]


def phrasebook_split(
    pair: str, train: int = 25_000, validation: int = 500, test: int = 1000, seed: int = 1
) -> PhrasebookSplit:
    """Training, validation and test pairs; no combination of a held-out pair occurs in any form in training.

    What a combination is, `holdout.combinations` says; which part it belongs to depends on nothing else, so a test part
    of one seed is unseen by a model trained with another. Raises UsageError like `phrasebook`.
    """
    source_language, target_language = languages_of_pair(pair)
    _check(train=train, validation=validation, test=test)
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
