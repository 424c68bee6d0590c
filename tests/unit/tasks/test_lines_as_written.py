"""Lines as people write them through a decoder that copies: what the model reads, and what comes back around it."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from tests.unit.tasks.test_line_translation import encode, nothing

from dikkat.config import TokenizerConfig
from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.confidence import EXACT, Confidence, Judge, WordConfidence, respelled
from dikkat_runtime.tasks.demand_keeping import DemandKeeper, PieceTranslator
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.reading import MAX_ENCODED, Manner, Reading
from dikkat_runtime.tasks.surrogates import SURROGATES
from dikkat_runtime.tasks.translations import PieceRequest, Translation, TranslationNotes
from dikkat_runtime.text.normalizing import MAX_OPENED, Speller, inner_pairs, symbol_spans
from dikkat_runtime.text.segmentation import ReadingLimits, Segmenter
from dikkat_runtime.text.tokenizer import Tokenizer

SENTENCES = (
    "The small cat sleeps.",
    "Where are my keys?",
    "A dog sees the house today",
    "She does not know it!",
    "We saw them, and they saw us.",
)


class Copying:
    """Decodes to what it reads, and keeps that."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]:
        self.read += [request.text for request in requests]
        return [Translation(request.text, -0.5, tuple(map(str, request.ids)), finished=True) for request in requests]


def same_gaps(source: str, source_ids: tuple[int, ...], target: str, offsets: Sequence[int]) -> list[int]:
    """Return the same characters: the translation is the source."""
    return list(offsets)


def same_spans(
    source: str, source_ids: tuple[int, ...], target: str, spans: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    """Return the words of each span, as if the translation were the source."""
    return [(start, start + len(source[start:end].rstrip(".,;:!?"))) for start, end in spans]


def translate(
    lines: Sequence[str], target_language: str = "fr", notes: TranslationNotes | None = None
) -> tuple[list[str], list[str]]:
    """Return the translations of lines, and the distinct texts that the model reads."""
    decode = Copying()
    own = translator(decode, target_language, notes)
    return [translation.text for translation in own.translate(lines, 1000)], decode.read


def translator(
    decode: Copying,
    target_language: str = "fr",
    notes: TranslationNotes | None = None,
    judge: Judge | None = None,
    unmet: frozenset[str] = frozenset(),
) -> LineTranslator:
    """Return a translator of lines that decodes by `decode` and has not met the marks in `unmet`."""
    options = BeamOptions()
    reading = Reading(encode, lambda: frozenset("éèàçüşığöÉ"), ("en", target_language), unmet_marks=lambda: unmet)
    return LineTranslator(
        Segmenter(reading.encode, ReadingLimits(64, 64, False), "en"),
        encode,
        PieceTranslator(DemandKeeper(nothing, nothing, nothing, False), options, retry=False),
        decode,
        options,
        notes or TranslationNotes(),
        reading=reading,
        gaps=same_gaps,
        enclosed=same_spans,
        surrogates=lambda: SURROGATES,
        judge=judge,
    )


def signs() -> list[str]:
    """Return more than 300 signs: every tenth of category So, and sequences of emoji."""
    plain = [
        chr(code)
        for code in range(0x2000, sys.maxunicode)
        if unicodedata.category(chr(code)) == "So" and symbol_spans(chr(code), frozenset())
    ]
    return [*plain[::20], "👨‍👩‍👧", "👍🏽", "🏳️‍🌈", "🇫🇷", "1️⃣", "❤️", "→", "•", "†", "※"]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_symbol_comes_once_and_the_words_are_as_without(sentence: str) -> None:
    first, _, rest = sentence.partition(" ")
    middle = f"{first} {rest.partition(' ')[0]}"
    every = signs()
    assert len(every) > 300
    lines = [
        line
        for sign in every
        for line in (
            f"{sign} {sentence}",
            f"{sentence} {sign}",
            f"{sign}{sentence}",
            f"{middle} {sign}{sentence.removeprefix(middle)}",
        )
    ]
    texts, read = translate(lines)
    assert set(read) == {sentence}
    assert texts == lines


@pytest.mark.parametrize(
    ("line", "read", "written"),
    [
        ("The\u00a0small  cat\u3000sleeps.", "The small cat sleeps.", "The small cat sleeps."),
        ("\ufeffThe sm\u00adall cat\u200e sleeps.", "The small cat sleeps.", "The small cat sleeps."),
        ("3. The cat sleeps.", "The cat sleeps.", "3. The cat sleeps."),
        ('"The cat sleeps."', "The cat sleeps.", '"The cat sleeps."'),
        ("“The cat sleeps.”", "The cat sleeps.", "«\u00a0The cat sleeps.\u00a0»"),
        ("The cat sleeps!!!", "The cat sleeps!", "The cat sleeps!!!"),
        ("Is it here?!", "Is it here?", "Is it here?!"),
        ("The cat 😀 sleeps 🎉!", "The cat sleeps!", "The cat 😀 sleeps 🎉!"),
        ("{name} sleeps ✅.", "Tom sleeps.", "{name} sleeps ✅."),
        ("✅ {name} sees {other}", "Tom sees Mary", "✅ {name} sees {other}"),
        ("The Cat Sleeps Now", "The cat sleeps now", "The Cat Sleeps Now"),
        ("THE CAT SLEEPS.", "The cat sleeps.", "THE CAT SLEEPS."),
        ("THE CAT 😀 SEES {name}!!", "The cat sees Tom!", "THE CAT 😀 SEES {name}!!"),
    ],
)
def test_a_line_is_read_plainly_and_written_in_its_manner(line: str, read: str, written: str) -> None:
    texts, pieces = translate([line])
    assert pieces == [read]
    assert texts == [written]


@pytest.mark.parametrize("mark", [".", "…", "。", "！", "？", "؟", "।"])
def test_final_marks_take_the_place_of_the_mark_of_any_script(mark: str) -> None:
    reading = Reading(encode, frozenset, ("en", "zh"))
    assert reading.written(f"他睡着了{mark}", Manner(final_marks="!!!")) == "他睡着了!!!"


def test_a_piece_is_read_once_for_its_ids_and_its_manner(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    alone = Speller.corrected

    def corrected(own: Speller, text: str) -> str:
        seen.append(text)
        return alone(own, text)

    monkeypatch.setattr(Speller, "corrected", corrected)
    reading = Reading(encode, frozenset, ("en", "fr"), {word: word for word in ("the", "house", "dog")})
    reading.encode(["the dog, the huose!!", "the dog!"])
    assert reading.piece("the dog, the huose!!") == ("the dog, the house!", Manner(final_marks="!!"))
    assert reading.piece("the dog!") == ("the dog!", Manner())
    assert seen == ["the dog, the huose!", "the dog!"]
    # nothing is kept of what was asked for
    assert reading.piece("the dog!") == ("the dog!", Manner())
    assert seen == ["the dog, the huose!", "the dog!", "the dog!"]
    # and not more than some thousand pieces
    for start in range(0, 2 * MAX_ENCODED, 1_000):
        reading.encode([f"the dog {start + number}" for number in range(1_000)])
    assert len(reading._encoded) <= MAX_ENCODED + 1_000


def test_words_with_their_confidences_are_cased_as_the_translation() -> None:
    confidence = Confidence(0.5, (WordConfidence("the", 0.4), WordConfidence("cat", 0.6)))
    assert [word.text for word in respelled(confidence, "THE CAT").words] == ["THE", "CAT"]

    class Sure(Judge):
        def __init__(self) -> None:
            """Judge without a model."""
            self.calibration = SimpleNamespace(right=EXACT)  # type: ignore[assignment]

        def __call__(
            self,
            sources: Sequence[str],
            targets: Sequence[str],
            finished: Sequence[bool] | None = None,
            known: Sequence[TokenScores | None] = (),
        ) -> list[Confidence]:
            return [confidence] * len(targets)

    judged = translator(Copying(), judge=Sure())
    (line,) = judged.translate(["THE CAT"], 1000)
    assert line.confidence is not None
    assert [(word.text, word.probability) for word in line.confidence.words] == [("THE", 0.4), ("CAT", 0.6)]


def test_names_that_were_typed_are_cased_as_all_words() -> None:
    texts, _ = translate(["TOM IS IN LONDON."], "tr")
    assert texts == ["TOM İS İN LONDON."]
    assert translate(["Tom Goes Home Now"])[0] == ["Tom Goes Home Now"]


def test_capitals_of_each_sentence_are_its_own() -> None:
    texts, read = translate(["STOP IT NOW. The cat sleeps."])
    assert read == ["Stop it now.", "The cat sleeps."]
    assert texts == ["STOP IT NOW. The cat sleeps."]


def test_turkish_translations_have_the_capitals_of_turkish() -> None:
    assert translate(["THE SILK IS IN IZMIR."], "tr")[0] == ["THE SİLK İS İN İZMİR."]


def test_controls_that_hide_an_order_are_left_out_and_counted() -> None:
    notes = TranslationNotes()
    texts, read = translate(["The price is \u202e001\u202c."], notes=notes)
    assert read == ["The price is 001."]
    assert texts == read
    assert [message.split(",")[0] for message in notes.lines()] == ["1 line had direction controls"]


def test_a_thousand_symbols_and_more_come_through() -> None:
    line = " 😀 ".join(["cat"] * 40) + " " + "🎉" * 10_000
    texts, _ = translate([line])
    assert texts[0].count("😀") == line.count("😀")
    assert texts[0].count("🎉") == 10_000


@pytest.mark.parametrize(
    ("line", "read", "written"),
    [
        ("The dog is “big”.", "The dog is big.", "The dog is «\xa0big\xa0»."),
        ('The "dog" is big.', "The dog is big.", 'The "dog" is big.'),
        ("The dog (a 'big' dog) is red.", "The dog a big dog is red.", "The dog (a 'big' dog) is red."),
        ("[The dog] is “big”", "The dog is big", "[The dog] is «\xa0big\xa0»"),
        ("He said: ‹Go!›", "He said: Go!", "He said: «\xa0Go!\xa0»"),
        ("the dog’s ‘bone’", "the dog's bone", "the dog's «\xa0bone\xa0»"),
        ("(a) The dog's (big) bone", "The dog's big bone", "(a) The dog's (big) bone"),
        ("(The dog is big.)", "The dog is big.", "(The dog is big.)"),
        ("The dog is 🎉 (🎉) big", "The dog is big", "The dog is 🎉 (🎉) big"),
        ('The dog is "big', "The dog is big", 'The dog is "big'),
        ("The dog→the cat", "The dog the cat", "The dog→the cat"),
        ('THE DOG IS "BIG".', "The dog is big.", 'THE DOG IS "BIG".'),
        ("The dog is « big ».", "The dog is big.", "The dog is «\xa0big\xa0»."),
        ("The dog ( big ) runs.", "The dog big runs.", "The dog ( big ) runs."),
    ],
)
def test_marks_that_training_never_showed_stand_around_the_words_of_their_own(
    line: str, read: str, written: str
) -> None:
    decode = Copying()
    own = translator(decode, unmet=frozenset("\"'(["))
    (translation,) = own.translate([line], 10)
    assert (decode.read, translation.text) == ([read], written)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ('"Is it big?" The dog sleeps.', '"Is it big?" The dog sleeps.'),
        ("“Is it big?” The dog sleeps.", "«\xa0Is it big?\xa0» The dog sleeps."),
        ("« Is it big? » The dog sleeps.", "«\xa0Is it big?\xa0» The dog sleeps."),
        ("(Is it big?) The dog sleeps.", "(Is it big?) The dog sleeps."),
        ("Is it big?🎉 The dog sleeps.", "Is it big?🎉 The dog sleeps."),
    ],
)
def test_a_sentence_ends_after_the_marks_that_close_it(line: str, written: str) -> None:
    decode = Copying()
    (translation,) = translator(decode, unmet=frozenset("\"'([")).translate([line], 10)
    assert (decode.read, translation.text) == (["Is it big?", "The dog sleeps."], written)


def test_marks_that_training_has_shown_are_read() -> None:
    lines = ['The "dog" (a big one) is red.', "the dog’s ‘bone’"]
    texts, read = translate(lines)
    assert texts == read == [lines[0], "the dog's 'bone'"]


@pytest.mark.parametrize("quoted", [False, True])
def test_a_mark_is_met_where_the_vocabulary_has_joined_it_with_something(quoted: bool) -> None:
    text = 'He said " no " and " yes " to the boys. ' if quoted else "He said no and yes to the boys. It's his. "
    tokenizer = Tokenizer.train([text] * 20, TokenizerConfig(vocab_size=400))
    assert tokenizer.unmet_marks == frozenset("([{'") | (frozenset() if quoted else {'"'})


def test_marks_without_end_take_time_by_their_number_alone() -> None:
    unmet = frozenset('"(')
    assert inner_pairs("(" * 200_000 + "dog)", frozenset(), unmet) == [(199_999, 200_003)]
    deep = inner_pairs("(" * 20 + "dog" + ")" * 20, frozenset(), unmet)
    assert len(deep) == MAX_OPENED
