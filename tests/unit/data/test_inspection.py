"""Tables that hold pairs of something else than a text and its translation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dikkat.data.inspection import odd_side
from dikkat.data.pairs import Pair

COLOURS, THINGS = ("red", "blue", "green", "old", "small"), ("dog", "cat", "bird", "tree")
WORDS = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]


def _odd(sides: Sequence[tuple[str, str]], data: Sequence[str] = ("a.en", "a.fr")) -> str:
    return odd_side([Pair(*pair, line) for line, pair in enumerate(sides, start=1)], data)


def test_good_pairs_are_not_odd() -> None:
    assert _odd([(words, words[::-1]) for words in WORDS]) == ""
    assert _odd([("OK", "OK"), ("7", "7"), ("one", "un")]) == ""
    assert _odd([]) == ""


def test_ids_name_the_columns_of_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("".join(f"{n};{words};{n + 900};{words[::-1]}\n" for n, words in enumerate(WORDS)))
    rows = [(str(n), words) for n, words in enumerate(WORDS)]
    assert _odd(rows, [str(path)]) == (
        "the source is only numbers; its texts seem to be in columns 2 and 4: add --source-column 2 --target-column 4"
    )
    both = [(str(n), str(n + 900)) for n in range(20)]
    assert _odd(both) == "the source and the target are only numbers; name two files of text"


def test_one_text_on_both_sides_is_said_with_its_line() -> None:
    rows = [("7", "sept"), *((words, words) for words in WORDS)]
    assert _odd(rows).startswith("source and target are the same text in 95% of the pairs, such as line 2: “red dog”;")


@pytest.mark.parametrize("side", [0, 1])
def test_labels_are_recognised(side: int) -> None:
    rows = [(words, "pos" if number % 2 else "neg") for number, words in enumerate(WORDS)]
    name = ("target", "source")[side]
    assert _odd([(pair[side], pair[1 - side]) for pair in rows]) == (
        f"the {name} is one of only 2 texts (“neg”, “pos”), like labels; to classify texts, use dikkat train classifier"
    )


def test_copies_are_recognised() -> None:
    assert _odd([("Good morning.", "Bonjour.")] * 30) == "it repeats itself: 1 different pair in its first 30 pairs"
