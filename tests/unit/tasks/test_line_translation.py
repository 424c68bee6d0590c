"""Lines of any kind through a decoder that shouts: what is cut, copied, decoded again, and told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.demand_keeping import DemandKeeper, PieceTranslator
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.reading import Reading
from dikkat_runtime.tasks.surrogates import SURROGATES
from dikkat_runtime.tasks.translations import PieceRequest, Translation, TranslationNotes, joined
from dikkat_runtime.text.segmentation import ReadingLimits, Segmenter

WORDS: dict[str, int] = {}


def encode(texts: Sequence[str]) -> list[list[int]]:
    return [[WORDS.setdefault(word, len(WORDS)) for word in text.split()] for text in texts]


class Shouting:
    """Writes a sentence in capitals; "loop" makes it repeat itself unless it is held, "cut" stops before the end."""

    def __init__(self) -> None:
        self.decoded: list[str] = []
        self.numbers: list[int] = []

    def __call__(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]:
        names = {number: word for word, number in WORDS.items()}
        written = [" ".join(names[item] for item in request.ids) for request in requests]
        self.decoded += written
        self.numbers += numbers
        return [self._shouted(text, options) for text in written]

    @staticmethod
    def _shouted(text: str, options: DecodingOptions) -> Translation:
        words = text.upper().split()
        if "LOOP" in words and not options.no_repeat_ngram:
            words = words * 8
        return Translation(" ".join(words), -0.5, tuple(words), finished="CUT" not in words)


def nothing(items: Sequence[object]) -> list[Any]:
    """Fail: no line lacks anything."""
    raise AssertionError(f"{items} lack nothing")


def line_translator(
    decode: Shouting, options: DecodingOptions, notes: TranslationNotes, *, retry: bool = True, language: str = ""
) -> LineTranslator:
    pieces = PieceTranslator(DemandKeeper(nothing, nothing, nothing, False), options, retry=retry)
    reading = Reading(encode, frozenset, (language, ""))
    segmenter = Segmenter(reading.encode, ReadingLimits(8, 6, False), language)
    return LineTranslator(
        segmenter,
        encode,
        pieces,
        decode,
        options,
        notes,
        reading=reading,
        gaps=first_gap,
        enclosed=no_spans,
        surrogates=lambda: SURROGATES,
    )


def first_gap(source: str, source_ids: tuple[int, ...], target: str, offsets: Sequence[int]) -> list[int]:
    """Return the beginning for every symbol."""
    return [0 for _ in offsets]


def no_spans(
    source: str, source_ids: tuple[int, ...], target: str, spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Fail: no line holds a pair of marks."""
    raise AssertionError(f"{source} holds no pair")


def translate(
    lines: Sequence[str], options: DecodingOptions | None = None, *, window: int = 100, retry: bool = True
) -> tuple[list[str], Shouting, list[str]]:
    decode, notes = Shouting(), TranslationNotes()
    translator = line_translator(decode, options or BeamOptions(), notes, retry=retry, language="en")
    return [item.text for item in translator.translate(lines, window)], decode, notes.lines()


@pytest.mark.parametrize("window", [1, 2, 100])
def test_a_line_of_several_sentences_is_translated_whole(window: int) -> None:
    lines = ["The cat sleeps. Where is it? It left.", "One sentence", "", "A b c d e f g h i j"]
    texts, decode, message = translate(lines, window=window)
    assert texts == [line.upper() for line in lines]
    assert decode.decoded[:4] == ["The cat sleeps.", "Where is it?", "It left.", "One sentence"]
    assert message == ["1 line had a sentence that the model cannot read in one piece and that was cut (line 4)"]


@pytest.mark.parametrize("line", ["", " ", " \t ", "-", " ... ", "12:30", "%s", "<br/>", "{name} \u00a0"])
def test_a_line_without_words_comes_back_as_it_is(line: str) -> None:
    texts, decode, message = translate([line, "go"])
    assert texts == [line, "GO"]
    assert decode.decoded == ["go"]
    assert message == []


def test_carriage_returns_end_sentences_and_are_told() -> None:
    texts, _, messages = translate(["fine", "the cat\rit sleeps\r", "a\rb"])
    assert texts == ["FINE", "THE CAT IT SLEEPS", "A B"]
    assert [item.split(";")[0] for item in messages] == [
        "2 lines had a carriage return (\\r) inside, which ends a sentence here, not a line"
    ]
    assert messages[0].endswith("(first line 2)")


def test_a_loop_is_decoded_again_and_told() -> None:
    texts, decode, message = translate(["a b", "say loop now", "ha ha ha ha ha ha ha loop", "say loop now"])
    assert texts == ["A B", "SAY LOOP NOW", "HA HA HA HA HA HA HA LOOP", "SAY LOOP NOW"]
    assert decode.decoded.count("say loop now") == 2
    assert message == ["3 lines came out as a loop, translated again without repeating three tokens (first line 2)"]


def test_a_source_that_repeats_itself_may_be_translated_so() -> None:
    texts, _, message = translate(["loop loop loop loop loop loop loop loop"])
    assert texts == [" ".join(["LOOP"] * 64)]
    assert message == []


@pytest.mark.parametrize(
    ("options", "retry"), [(BeamOptions(), False), (BeamOptions(no_repeat_ngram=9), True)], ids=["off", "user's own"]
)
def test_loops_stay_where_the_user_has_decided(options: DecodingOptions, retry: bool) -> None:
    _, decode, message = translate(["say loop now"], options, retry=retry)
    assert decode.decoded == ["say loop now"]
    assert message == []


def test_an_unfinished_translation_is_told() -> None:
    assert translate(["fine", "cut here"])[2] == [
        "1 line had a translation that reached the length limit and ends unfinished (line 2)"
    ]


def test_what_did_not_survive_is_counted_by_kind() -> None:
    lines = ["{name} and %d", "Open {file} now", "see 12 of 12", "no {x", "is {N} here"]
    texts, _, message = translate(lines)
    assert message == []
    assert texts == ["{name} AND %d", "OPEN {file} NOW", "SEE 12 OF 12", "NO {X", "IS {N} HERE"]


def test_equal_sentences_are_decoded_once_but_each_is_drawn_for_itself() -> None:
    lines = ["go home"] * 50
    texts, decode, _ = translate(lines)
    assert texts == ["GO HOME"] * 50
    assert decode.decoded == ["go home"]
    texts, decode, _ = translate(lines, SamplingOptions())
    assert decode.numbers == list(range(50))


def test_the_number_of_a_line_does_not_depend_on_the_pieces_before_it() -> None:
    """With the seed it decides what is drawn for the line."""
    one, two = (
        translate(["a b", "c d"], SamplingOptions())[1],
        translate(["A b. C d. E f.", "c d"], SamplingOptions())[1],
    )
    assert one.numbers == [0, 1]
    assert two.numbers[0] == 0
    assert two.numbers[-1] == 1
    assert len(set(two.numbers)) == 4


def test_what_was_read_before_an_error_is_translated_before_it() -> None:
    def lines() -> Iterator[str]:
        yield "one"
        yield "two"
        raise DataError("the third is broken")

    translator = line_translator(Shouting(), BeamOptions(), TranslationNotes())
    translations = translator.translate(lines(), 100)
    assert [next(translations).text, next(translations).text] == ["ONE", "TWO"]
    with pytest.raises(DataError, match="the third is broken"):
        next(translations)


def test_a_long_line_does_not_hold_up_those_before_it() -> None:
    decode = Shouting()
    translator = line_translator(decode, SamplingOptions(), TranslationNotes())
    assert next(translator.translate(["first", "A b. " * 500, "last"], 10)).text == "FIRST"
    assert len(decode.decoded) == 10


def test_a_line_in_pieces_is_scored_as_if_written_in_one() -> None:
    """log p = -1 * 3 - 2 * 2 over 5 tokens, the end marks counted; what was copied has none."""
    parts = [
        Translation("A b", -3.0 / 3**1.5, ("A", "b")),
        Translation("12", 0.0, ()),
        Translation("C d", -4.0 / 2**1.5, ("C", "d"), finished=False),
    ]
    line = joined(parts, 1.5)
    assert line.text == "A b 12 C d"
    assert line.score == pytest.approx(-7.0 / 5**1.5)
    assert line.tokens == ("A", "b", "C", "d")
    assert not line.finished
    assert joined(parts[:1], 1.5) is parts[0]


def test_the_next_best_of_a_line_in_pieces_are_the_next_best_of_each() -> None:
    second = Translation("a", -2.0, ("a",))
    line = joined([Translation("A", -1.0, ("A",), (second,)), Translation("B", -1.0, ("B",))], 1.0)
    assert [item.text for item in (line, *line.alternatives)] == ["A B", "a B"]
