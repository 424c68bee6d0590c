"""The generated corpus as a whole: distinct, determined, the same everywhere, and split without leaks."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache

import pytest
from tools.phrasebook.english import english
from tools.phrasebook.french import french
from tools.phrasebook.generate import (
    Combination,
    assigned_part,
    combinations,
    part_of_sentence,
    phrasebook,
    phrasebook_split,
)
from tools.phrasebook.grammar import Action, Clause, Mood, NounPhrase
from tools.phrasebook.lexicon import ADJECTIVES, NAMES, NOUNS, PRONOUNS, VERBS, Tense
from tools.phrasebook.nominals import Dice
from tools.phrasebook.sampling import sample
from tools.phrasebook.turkish import turkish

from dikkat.data.lessons import PhrasebookSplit

LANGUAGES = ("fr", "tr")


@cache
def _split(language: str) -> PhrasebookSplit:
    return phrasebook_split(language)


@pytest.mark.nightly
def test_more_than_fifty_thousand_distinct_pairs_exist() -> None:
    pairs = phrasebook("fr", 50_001)
    assert len({pair.source for pair in pairs}) == 50_001
    assert len({(pair.source, pair.target) for pair in pairs}) == 50_001


@pytest.mark.parametrize("count", [10_000, pytest.param(30_000, marks=pytest.mark.nightly)])
def test_english_determines_the_translation(count: int) -> None:
    dice = Dice(11)
    translations: dict[str, tuple[str, str]] = {}
    for _ in range(count):
        sentence = sample(dice)
        both = french(sentence), turkish(sentence)
        assert translations.setdefault(english(sentence), both) == both


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_short_and_end_properly(language: str) -> None:
    for number, pair in enumerate(phrasebook(language, 3000), start=1):
        assert pair.line == number
        assert 3 <= len(pair.source.split(" ")) <= 14
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text[-1] in ".?!"
            assert "  " not in text
            assert text == text.strip()
            assert "\n" not in text


def test_the_english_of_a_seed_is_the_same_for_both_languages() -> None:
    assert [pair.source for pair in phrasebook("fr", 500)] == [pair.source for pair in phrasebook("tr", 500)]


def test_count_cuts_the_same_sequence_and_seed_changes_it() -> None:
    assert phrasebook("tr", 100) == phrasebook("tr", 300)[:100]
    assert phrasebook("tr", 100, seed=1) != phrasebook("tr", 100, seed=2)


def test_the_same_pairs_in_another_process_with_another_hash_seed() -> None:
    program = (
        "import hashlib; from tools.phrasebook.generate import phrasebook_split;"
        "s = phrasebook_split('tr', 400, 20, 20, seed=7); print(hashlib.sha256(repr(s).encode()).hexdigest())"
    )
    expected = hashlib.sha256(repr(phrasebook_split("tr", 400, 20, 20, seed=7)).encode()).hexdigest()
    path = os.pathsep.join(sys.path)
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_split_has_the_sizes_asked_for_and_shares_no_sentence(language: str) -> None:
    train, validation, test = _split(language)
    assert [len(train), len(validation), len(test)] == [25_000, 500, 1000]
    sources = [pair.source for part in (train, validation, test) for pair in part]
    assert len(set(sources)) == len(sources)


def test_no_held_out_combination_occurs_in_training_in_any_form() -> None:
    of_source: dict[str, set[Combination]] = {}
    dice = Dice(1)
    wanted = {pair.source for part in _split("fr") for pair in part}
    while len(of_source) < len(wanted):
        sentence = sample(dice)
        source = english(sentence)
        if source in wanted:
            of_source[source] = set(combinations(sentence))
    train: set[Combination] = set().union(*(of_source[pair.source] for pair in _split("fr").train))
    for part in (_split("fr").validation, _split("fr").test):
        assert all(of_source[pair.source] - train for pair in part)


def test_a_combination_ignores_tense_question_number_and_adjectives() -> None:
    apple = next(noun for noun in NOUNS if noun.english == "apple")
    cat = next(noun for noun in NOUNS if noun.english == "cat")
    eat = next(verb for verb in VERBS if verb.english == "eat")
    plain = Clause(NounPhrase(cat), Action(eat, object=NounPhrase(apple)), Tense.PRESENT)
    small_cats = NounPhrase(cat, plural=True, adjectives=(ADJECTIVES[1],))
    other = Clause(small_cats, Action(eat, object=NounPhrase(apple)), Tense.PAST, Mood.QUESTION, negative=True)
    assert combinations(plain) == combinations(other) == (("cat", "eat", "apple"),)


@pytest.mark.parametrize("count", [8_000, pytest.param(30_000, marks=pytest.mark.nightly)])
def test_a_sentence_with_combinations_of_two_held_out_parts_belongs_to_none(count: int) -> None:
    dice, parts = Dice(2), set()
    for _ in range(count):
        sentence = sample(dice)
        held_out = {assigned_part(combination) for combination in combinations(sentence)} - {"train"}
        part = part_of_sentence(sentence)
        assert part == (None if len(held_out) == 2 else next(iter(held_out), "train"))
        parts.add(part)
    assert parts >= {"train", "validation", "test"}


def test_every_word_of_the_lexicon_occurs_in_training() -> None:
    text = "\n".join(pair.source.lower() for pair in _split("fr").train)
    words = set(text.replace(".", " ").replace("?", " ").replace("!", " ").replace("'", " ").split())
    entries = [noun.english for noun in NOUNS] + [adjective.english for adjective in ADJECTIVES]
    entries += [name.text.lower() for name in NAMES] + [pronoun.english.lower() for pronoun in PRONOUNS]
    assert not [entry for entry in entries if entry not in words]
    assert not [verb.english for verb in VERBS if f" {verb.english}" not in text and f"\n{verb.english}" not in text]


@pytest.mark.parametrize("language", LANGUAGES)
def test_held_out_text_hardly_has_a_form_that_training_never_shows(language: str) -> None:
    split = _split(language)
    for side in ("source", "target"):
        known = {word for pair in split.train for word in _words(getattr(pair, side))}
        words = [word for pair in split.test for word in _words(getattr(pair, side))]
        assert sum(word not in known for word in words) / len(words) < 0.02


def _words(text: str) -> list[str]:
    return text.lower().rstrip(".?!").split()


def test_from_turkish_each_text_is_there_once_and_he_is_held_out_with_she() -> None:
    parts = phrasebook_split("tr-en", 4000, 40, 200)
    sources = [pair.source for part in parts for pair in part]
    assert len(set(sources)) == len(sources)
    trained = {_genderless(pair.target) for pair in parts.train}
    assert not trained & {_genderless(pair.target) for pair in parts.test}


def _genderless(text: str) -> str:
    return text.lower().replace("she ", "he ").replace("doesn't", "does not").replace("isn't", "is not")
