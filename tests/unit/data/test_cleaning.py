"""Which pairs are left out and why, and what is kept untouched."""

from __future__ import annotations

import time
import tracemalloc
import unicodedata

import pytest

from dikkat.config import DataConfig
from dikkat.data.cleaning import Cleaner, is_text, normalise
from dikkat.data.pairs import Pair
from dikkat.data.stored_pairs import StoredPairs, without_duplicates


def _clean(*sides: tuple[str, str], config: DataConfig | None = None) -> tuple[list[tuple[str, str]], Cleaner]:
    cleaner = Cleaner(config or DataConfig())
    clean = StoredPairs.store(cleaner(Pair(*pair, line) for line, pair in enumerate(sides, start=1)))
    kept = list(without_duplicates(clean, cleaner.report))
    return [(pair.source, pair.target) for pair in kept], cleaner


@pytest.mark.parametrize(
    ("reason", "source", "target"),
    [
        ("empty side", "A dog runs.", "  \t "),
        ("empty side", "", "Ein Hund."),
        ("control or replacement character", "A d\x00g.", "Ein Hund."),
        ("control or replacement character", "A dog.", "Ein H\ufffdnd."),
        ("control or replacement character", "A dog.", "caf\x82 chaud"),
        ("too long", "word " * 1000, "Wort " * 1000),
        ("not text", "Front stroke race", "@@"),
        ("not text", "%1$s: (%2$d)", "Fehler"),
        ("not text", "10:30 - 11:45 a", "10:30 - 11:45 Uhr"),
        ("identical sides", "This line was never translated.", "This line was never translated."),
        ("length ratio", "Yes.", "Ja, das ist wirklich ganz sicher so."),
    ],
)
def test_a_bad_pair_is_left_out_with_its_reason_and_example(reason: str, source: str, target: str) -> None:
    kept, cleaner = _clean(("A dog runs.", "Ein Hund läuft."), (source, target))
    assert kept == [("A dog runs.", "Ein Hund läuft.")]
    ((result, count, example),) = cleaner.report.rows()
    assert (result, count) == (reason, 1)
    assert example.startswith("line 2: “")
    assert example.isprintable()
    assert len(example) < 120


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("OK", "OK"),
        ("New York City", "New York City"),
        ("Go.", "Va-t'en d'ici !"),
        ("It's 7:45.", "Il est 7 h 45."),
        ("Ask %s about it.", "Demandez à %s."),
        ("मेरी बहन यहाँ है।", "Kız kardeşim burada."),
        ("我喜欢你。", "I like you."),
        ("one\ttwo", "un\tdeux"),
        ("Wait\u202f! « Oui »\u00a0?", "Dur\u200c!"),
    ],
)
def test_a_good_pair_is_kept_as_it_is(source: str, target: str) -> None:
    kept, cleaner = _clean((source, target))
    assert kept == [(source, target)]
    assert cleaner.report.rows() == []


def test_text_is_composed_and_trimmed() -> None:
    # U+0069 is untouched; e + combining acute and C + cedilla have composed forms (Unicode TR 15).
    assert normalise("  C\u0327ok cafe\u0301 \u3000") == "\u00c7ok caf\u00e9"
    kept, _ = _clean(("cafe\u0301 ", " Kaffee"))
    assert kept == [("caf\u00e9", "Kaffee")]


def test_long_text_is_composed_as_short_text_is_in_linear_time() -> None:
    for part in ("cafe\u0301 ", "\u1112\u1161\u11ab", "\u0915\u093c", "我不\u304b\u3099"):
        assert normalise(part * 3000) == unicodedata.normalize("NFC", part * 3000).strip()
    begun = time.process_time()
    normalise("a" + "\u0301\u0323" * 100_000)
    assert time.process_time() - begun < 20, "sorting all marks at once takes minutes"


def test_duplicates_are_of_the_whole_pair_after_normalisation() -> None:
    kept, cleaner = _clean(("Stop!", "Halt!"), ("Stop!", "Stopp!"), (" Stop!", "Halt! "), ("Stop! Halt!", "x"))
    assert kept == [("Stop!", "Halt!"), ("Stop!", "Stopp!"), ("Stop! Halt!", "x")]
    assert [row[:2] for row in cleaner.report.rows()] == [("duplicate", 1)]


def test_the_report_counts_everything_and_keeps_the_first_example() -> None:
    good = [(f"Sentence {letter}.", f"Satz {letter}.") for letter in "abc"]
    kept, cleaner = _clean(*good, ("", "x"), ("", "y"), good[0])
    report = cleaner.report
    assert (report.read, report.kept, report.dropped) == (6, 3, 3)
    assert len(kept) == 3
    assert report.rows() == [
        ("empty side", 2, "line 4: “” → “x”"),
        ("duplicate", 1, "line 6: “Sentence a.” → “Satz a.”"),
    ]


def test_examples_are_shortened_and_safe_for_a_terminal() -> None:
    _, cleaner = _clean(("\x1b[31m" + "long " * 100, "kurz"))
    assert cleaner.report.rows()[0][2].startswith("line 1: “\\x1b[31mlong long")
    assert cleaner.report.rows()[0][2].endswith("…” → “kurz”")


def test_the_ratio_limit_is_configured() -> None:
    pair = ("A dog runs.", "Ein Hund läuft über die Wiese.")
    assert _clean(pair)[0] == [pair]
    assert _clean(pair, config=DataConfig(max_ratio=2.0))[0] == []


def test_the_length_limit_follows_the_token_limit() -> None:
    pair = ("word " * 40, "Wort " * 40)
    assert len(_clean(pair)[0]) == 1
    assert _clean(pair, config=DataConfig(max_length=10))[0] == []


def test_spaces_do_not_count_against_letters() -> None:
    assert is_text("a b c d - - - -") is True
    assert is_text("a - - - - - -") is False


def test_memory_does_not_grow_with_the_pairs() -> None:
    size = 20_000
    cleaner = Cleaner(DataConfig())
    pairs = (
        Pair(f"source {number} " + "word " * 60, f"target {number} " + "Wort " * 60, number) for number in range(size)
    )
    tracemalloc.start()
    kept = sum(1 for _ in cleaner(pairs))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept == size
    # a hash of each pair in a set alone would take more
    assert peak < 40 * size
