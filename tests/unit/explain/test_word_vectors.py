"""Words and vectors as users type them, and everything that can be wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dikkat.explain.word_vectors import known_vectors, parse_vector, read_vectors, split_words, typed_vectors
from dikkat_runtime.errors import DataError, DikkatError, UsageError

HELLO = [[0.34, 0.22, 0.54], [0.53, 0.34, 0.98], [0.29, 0.54, 0.93]]


@pytest.mark.seed("B2")
def test_the_built_in_sentence() -> None:
    words = known_vectors("Hello shiny sun!")
    assert words.words == ("Hello", "shiny", "sun")
    assert words.vectors.tolist() == HELLO
    assert words.cell().query_token == "shiny"


@pytest.mark.seed("B2")
def test_words_and_vectors_typed_by_the_user() -> None:
    words = typed_vectors("Güneş doğdu, bak!", ["0.1 -0.2", "[0.3, 4e-1]", " 5 6 "])
    assert words.words == ("Güneş", "doğdu", "bak")
    assert words.vectors.tolist() == [[0.1, -0.2], [0.3, 0.4], [5.0, 6.0]]
    assert words.left_out == (",", "!")
    assert words.cell().query_number == 1
    assert words.cell("bak").query.tolist() == [5.0, 6.0]
    assert words.cell("2", beta=0.5).beta == 0.5


@pytest.mark.seed("B7")
def test_the_query_of_the_journey_is_row_2() -> None:
    cell = known_vectors("your journey starts with one step").cell()
    assert (cell.query_number, cell.query_token) == (2, "journey")
    assert cell.keys.shape == (6, 3)


@pytest.mark.seed("F23")
def test_the_exclamation_mark_has_no_vector() -> None:
    """Left out and said so; or, given a fourth row, attended to."""
    assert known_vectors("Hello shiny sun!").left_out == ("!",)
    rows = [" ".join(map(str, row)) for row in HELLO]
    with_mark = typed_vectors("Hello shiny sun!", [*rows, "0.1 0.1 0.1"])
    assert with_mark.words == ("Hello", "shiny", "sun", "!")
    assert with_mark.left_out == ()
    assert with_mark.vectors[3].tolist() == [0.1, 0.1, 0.1]


def test_words_keep_what_is_inside_them() -> None:
    assert split_words("“Don't!” l'eau, (İstanbul'da) x-y …") == [
        "“", "Don't", "!", "”", "l'eau", ",", "(", "İstanbul'da", ")", "x-y", "…",
    ]  # fmt: skip
    assert split_words("नमस्ते caf\u0065\u0301.") == ["नमस्ते", "café", "."]


def test_one_word_in_any_case_or_order() -> None:
    assert known_vectors("SUN").vectors.tolist() == [HELLO[2]]
    assert known_vectors("sun, hello").words == ("sun", "hello")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.tsv", "\ufeffsun\t0.1 0.2\r\n\n!\t[3, 4]\r\ncaf\u0065\u0301\t5 6\r\n"),
        ("v.txt", "sun\t0.1\t0.2\n!\t3\t4\ncafé\t5\t6"),
    ],
)
def test_vectors_of_a_file(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    words = known_vectors("sun café! ?", path)
    assert words.words == ("sun", "café", "!")
    assert words.vectors.tolist() == [[0.1, 0.2], [5.0, 6.0], [3.0, 4.0]]
    assert words.left_out == ("?",)


@pytest.mark.parametrize("sentence", ["", "  ", "\n\t"])
def test_an_empty_sentence(sentence: str) -> None:
    for result in (lambda: known_vectors(sentence), lambda: typed_vectors(sentence, ["1"])):
        with pytest.raises(DataError, match="nothing to attend to in an empty sentence; give a few words"):
            result()


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(DataError, match=r"'a \\udcff': not text: it holds half of a surrogate pair"):
        split_words("a \udcff")


@pytest.mark.parametrize("sentence", ["Hello world and sun", "?"])
def test_words_without_vector(sentence: str, tmp_path: Path) -> None:
    names = '"world", "and"' if "world" in sentence else r'"\?"'
    with pytest.raises(UsageError, match=f"no vector for {names}: give each word one with --vector"):
        known_vectors(sentence)
    path = tmp_path / "v.tsv"
    path.write_text("Hello\t1\nsun\t2\n")
    with pytest.raises(UsageError, match=rf"v\.tsv: no vector for {names}; add a line for it"):
        known_vectors(sentence, path)


def test_too_few_or_too_many_vectors() -> None:
    for count in (1, 4):
        with pytest.raises(UsageError, match=rf"there are 2 words \(a b\), but {count} of --vector; give one"):
            typed_vectors("a b!", ["1 2"] * count)


def test_unequal_widths(tmp_path: Path) -> None:
    message = 'vectors must have one width, but "a" has 2 numbers and "c" has 3'
    with pytest.raises(UsageError, match=message):
        typed_vectors("a b c", ["1 2", "3 4", "5 6 7"])
    path = tmp_path / "v.tsv"
    path.write_text("a\t1 2\nb\t3 4\nc\t5 6 7\n")
    with pytest.raises(UsageError, match=message):
        known_vectors("a b c", path)
    assert np.array_equal(known_vectors("a b", path).vectors, [[1, 2], [3, 4]])


@pytest.mark.parametrize("text", ["", "[]", "0,1 0,2", "0.1,0.2", "a b", "nan 1", "1 inf", "1e999"])
def test_what_is_not_a_vector(text: str) -> None:
    with pytest.raises(UsageError, match=r"--vector 2: .* is not a vector; write finite numbers with spaces between"):
        parse_vector(text, "--vector 2")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.tsv", "a\t1 2\nb\t1 x\n", r'v\.tsv:2: "1 x" is not a vector'),
        ("v.tsv", "a\t1 2\nb 1 2\n", r"v\.tsv:2: a line is a word, a tab and its numbers"),
        ("v.tsv", "a\t1 2\n\t1 2\n", r"v\.tsv:2: a line is a word, a tab"),
        ("v.tsv", "a\t1 2\nb\t1 2\na\t3 4\n", r'v\.tsv:3: "a" has a vector already; keep one'),
        ("v.tsv", "", r"v\.tsv: the file is empty"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DikkatError, match=message) as caught:
        read_vectors(path)
    assert caught.value.exit_code == 65
