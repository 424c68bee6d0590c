"""An unknown word is read as the known word that one slip makes of it, and nothing else changes."""

from __future__ import annotations

import random

import pytest

from dikkat_runtime.text.normalizing import Speller

WORDS = ["the", "dog", "sleeps", "boat", "beach", "boot", "garden", "Tom", "London", "don't", "while", "white", "it"]
SPELLER = Speller({word.lower(): word for word in WORDS}, "en")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("the dog slepes it", "the dog sleeps it"),
        ("the dog sleps it", "the dog sleeps it"),
        ("the dog sleepps it", "the dog sleeps it"),
        ("the dog sloaps it", "the dog sloaps it"),
        ("the dog slaeps it", "the dog sleeps it"),
        ("Graden dog it the", "Garden dog it the"),
        ("the gardne it dog", "the garden it dog"),
        # of two the more frequent one
        ("the dog boet it", "the dog boat it"),
        ("the dog whie it", "the dog while it"),
        ("the dog dont it the", "the dog dont it the"),
        # the first letter stays, and so does the end of a word, which may be another form
        ("the dog tsleeps it", "the dog tsleeps it"),
        ("the dog gardens it", "the dog gardens it"),
        ("the dog sleep it", "the dog sleep it"),
        # names, short words and texts of another field
        ("the dog Bech it", "the dog Bech it"),
        ("the dgo it", "the dgo it"),
        ("slepes Londno dgo", "slepes Londno dgo"),
        ("", ""),
        ("!? 12", "!? 12"),
    ],
)
def test_a_slip_inside_an_unknown_word_is_mended(typed: str, read: str) -> None:
    assert SPELLER.corrected(typed) == read


def test_a_word_is_written_in_its_usual_form() -> None:
    speller = Speller({"ışık": "ışık", "istanbul": "İstanbul", "var": "var", "ve": "ve"}, "tr")
    assert speller.corrected("ve ışkı var ve") == "ve ışık var ve"
    assert speller.corrected("İstanbol var ve") == "İstanbul var ve"
    assert Speller({}, "en").corrected("any word") == "any word"


def test_a_slip_is_every_change_of_one_letter_inside_a_word_that_makes_a_known_one() -> None:
    chance, letters = random.Random(2), "abéx"
    words = {"".join(chance.choices(letters, k=chance.randint(2, 7))) for _ in range(400)}
    rank = {word: number for number, word in enumerate(sorted(words))}
    speller = Speller({word: word for word in rank}, "en")
    for _ in range(300):
        typed = "".join(chance.choices(letters, k=chance.randint(4, 7)))
        if typed in rank:
            continue
        inner = range(1, len(typed) - 1)
        slips = {typed[:at] + typed[at + 1 :] for at in inner}
        slips |= {typed[:at] + typed[at + 1] + typed[at] + typed[at + 2 :] for at in inner}
        slips |= {typed[:at] + letter + typed[at + 1 :] for at in inner for letter in letters}
        slips |= {typed[:at] + letter + typed[at:] for at in range(1, len(typed)) for letter in letters}
        known = slips & rank.keys()
        filler = " ".join(list(rank)[:4])
        assert speller.corrected(f"{filler} {typed}") == f"{filler} {min(known, key=rank.__getitem__, default=typed)}"


def test_known_words_never_change() -> None:
    chance = random.Random(1)
    for _ in range(100):
        text = " ".join(chance.choices(WORDS, k=6))
        assert SPELLER.corrected(text) == text
