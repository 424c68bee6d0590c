"""How a line is cut for a model: never lost, never longer than it can read, and not at all where it need not be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dikkat_runtime.text.segmentation import ReadingLimits, Segmenter, Segments, join

SINGLE, PARAGRAPHS = ReadingLimits(8, 7, False), ReadingLimits(8, 7, True)


def by_words(texts: Sequence[str]) -> list[list[int]]:
    """A token a word, and one for every four signs of a script without spaces."""
    return [[3] * sum(max(1, len(word) // 4) if max(word) > "\u3000" else 1 for word in text.split()) for text in texts]


def by_characters(texts: Sequence[str]) -> list[list[int]]:
    return [[3] * len(text) for text in texts]


def segments(line: str, limits: ReadingLimits = SINGLE, encode: object = by_words, language: str = "en") -> Segments:
    (result,) = Segmenter(encode, limits, language).segment([line])  # type: ignore[arg-type]
    return result


def texts(result: Segments) -> list[str]:
    return [piece.text for piece in result.pieces]


def test_what_a_model_has_learned_to_read_is_not_cut() -> None:
    line = "one two,  three four: five six"
    assert segments(line) == segments(line, PARAGRAPHS)
    assert texts(segments(line)) == [line]
    assert not segments(line).cut_sentence


def test_sentences_are_read_alone_where_they_were_learned_alone() -> None:
    line = "The cat sleeps. Where is it?  It left."
    assert texts(segments(line)) == ["The cat sleeps.", "Where is it?", "It left."]
    assert not segments(line).cut_sentence


def test_sentences_stay_together_up_to_the_usual_length() -> None:
    assert texts(segments("The cat sleeps. Where is it?", PARAGRAPHS)) == ["The cat sleeps. Where is it?"]
    longer = "The cat sleeps. Where is it? It left. Nobody saw it."
    assert texts(segments(longer, PARAGRAPHS)) == ["The cat sleeps. Where is it?", "It left. Nobody saw it."]


@pytest.mark.parametrize("limits", [SINGLE, PARAGRAPHS])
def test_a_long_sentence_is_cut_at_clauses_and_then_at_words_of_about_equal_shares(limits: ReadingLimits) -> None:
    clauses = segments("a b c, d e f, g h i j k l m, n o", limits)
    assert texts(clauses)[:2] == ["a b c, d e f,", "g h i j k l m,"] or limits.several_sentences
    assert " ".join(texts(clauses)) == "a b c, d e f, g h i j k l m, n o"
    assert clauses.cut_sentence
    words = segments(" ".join("abcdefghij"), SINGLE)
    assert texts(words) == ["a b c d e", "f g h i j"]
    assert texts(segments("a b c d 1 000 km h i j", SINGLE)) == ["a b c d", "1 000 km h i", "j"]


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    line = "今日は天気がいいから公園に行きましょうと彼は言った、そして私たちは行った"
    result = segments(line, ReadingLimits(20, 20, False), by_characters)
    assert "".join(texts(result)) == line
    assert all(len(piece.ids) <= 20 for piece in result.pieces)
    assert result.cut_sentence


def test_a_word_that_cannot_be_read_is_copied() -> None:
    result = segments(f"see {'x' * 50} now", ReadingLimits(20, 20, False), by_characters)
    assert texts(result) == ["see", "x" * 50, "now"]
    assert [bool(piece.ids) for piece in result.pieces] == [True, False, True]
    assert result.copied_word


def test_a_sentence_without_words_is_copied() -> None:
    result = segments("It costs this much now then. 12,500. Thank you all the same, sir.")
    assert [(piece.text, bool(piece.ids)) for piece in result.pieces] == [
        ("It costs this much now then.", True),
        ("12,500.", False),
        ("Thank you all the same, sir.", True),
    ]


@pytest.mark.parametrize("limits", [SINGLE, PARAGRAPHS, ReadingLimits(1, 1, False), ReadingLimits(500, 400, True)])
@pytest.mark.parametrize(
    "line",
    ["word " * 3_000, "x" * 20_000, "今日は。" * 3_000, "今日" * 9_000, "One two. " * 2_000, "a\rb " * 4_000,
     "é, " * 5_000, "😀" * 9_000 + " a", "\u0301" * 9_000 + "b", "a" * 5_000 + " b c " + "d" * 5_000],
)  # fmt: skip
@pytest.mark.parametrize("encode", [by_words, by_characters])
def test_nothing_is_lost_and_nothing_is_too_long(line: str, limits: ReadingLimits, encode: object) -> None:
    result = segments(line.strip(), limits, encode)
    squeezed = "".join("".join(texts(result)).split())
    assert squeezed == "".join(line.split())
    assert all(len(piece.ids) <= max(limits.longest, 4) for piece in result.pieces)


def test_lines_are_cut_each_for_itself() -> None:
    lines = ["One. Two.", "x" * 9_000, "three", "今" * 5_000]
    together = Segmenter(by_words, SINGLE).segment(lines)
    assert together == [segments(line, language="") for line in lines]


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (["Le chat dort.", "Où ?"], "Le chat dort. Où ?"),
        (["猫は寝ている。", "どこ？"], "猫は寝ている。どこ？"),
        (["你好！", "Python很好。"], "你好！Python很好。"),
        (["고양이가 자요.", "어디?"], "고양이가 자요. 어디?"),
        (["a", "", "b"], "a b"),
        ([], ""),
    ],
)
def test_pieces_are_joined_as_the_script_joins_sentences(parts: list[str], line: str) -> None:
    assert join(parts) == line


@pytest.mark.parametrize("limits", [SINGLE, PARAGRAPHS])
def test_the_dash_before_what_somebody_says_is_copied(limits: ReadingLimits) -> None:
    result = segments("- Where is it?", limits)
    assert texts(result) == ["-", "Where is it?"]
    assert [len(piece.ids) for piece in result.pieces] == [0, 3]
    # but one inside of a sentence, and one that stands at its word, are text
    assert texts(segments("He came - at last", limits)) == ["He came - at last"]
    assert texts(segments("-5 degrees", limits)) == ["-5 degrees"]
    assert texts(segments("- 17", limits)) == ["- 17"]
    assert texts(segments("- Go. - No.", SINGLE)) == ["-", "Go.", "-", "No."]


def by_marks(texts: Sequence[str]) -> list[list[int]]:
    """A token a word, but three for a mark of a language that the vocabulary does not have."""
    return [[3] * sum(3 if word == ">>xyz<<" else 1 for word in text.split()) for text in texts]


@pytest.mark.parametrize("limits", [SINGLE, PARAGRAPHS])
def test_every_piece_begins_with_the_mark_of_a_language_where_the_line_does(limits: ReadingLimits) -> None:
    short = ">>fra<< The cat sleeps."
    assert segments(short, limits, by_marks) == segments(short, limits, by_words)
    assert texts(segments(short, limits, by_marks)) == [short]
    words = " ".join("abcdefghijklmno")
    line = f">>fra<< {words}. Where is it? 12,500. It left."
    pieces = segments(line, limits, by_marks).pieces
    assert len(pieces) > 2
    for piece in pieces:
        assert (piece.text[:8] == ">>fra<< ") == bool(piece.ids)
        assert list(piece.ids) == (by_marks([piece.text])[0] if piece.ids else [])
        assert len(piece.ids) <= limits.longest
    unmarked = " ".join(piece.text.removeprefix(">>fra<< ") for piece in pieces)
    assert unmarked == line.removeprefix(">>fra<< ")
    # what is no token of the vocabulary names no language
    foreign = segments(line.replace("fra", "xyz"), limits, by_marks)
    assert [text.count(">>xyz<<") for text in texts(foreign)] == [1, *[0] * (len(foreign.pieces) - 1)]
