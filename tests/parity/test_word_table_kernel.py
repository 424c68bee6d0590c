"""The kernel that scores texts by a word table, against the same table over numpy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dikkat_runtime.tasks.word_table import KINDS, TablePart, WordTable
from dikkat_runtime.text import text_ngrams
from dikkat_runtime.text.text_ngrams import NgramReader

ALPHABET = "abzAZIıİ09_.,-<>'  \t\n\r\x00\x1c\x85\u00a0\u2028éÅe\u0301ßς漢\U0001f600\ud800"
TEXTS = [
    "", " ", "a", "A b", "the the the cat", "a" * 300, "b " * 200, "x" * 127, "y" * 128, "z" * 129, "é" * 70, "...",
    "naïve café—so", "I\u0307stanbul ILIK", "\t tab\x1cfile\x1ftab \x0b", "two  spaces",
]  # fmt: skip


def texts_of(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return ["".join(generator.choices(ALPHABET, k=generator.randint(0, 60))) for _ in range(count)]


def table_of(texts: list[str], outputs: int, language: str, threads: int = 0) -> WordTable:
    """Return a table of random weights that knows two thirds of the n-grams of `texts`."""
    reader, generator = NgramReader(language), np.random.default_rng(3)
    parts, weights = [], []
    for kind in KINDS:
        none: Any = np.zeros(0)
        hashes = np.unique(
            TablePart(kind, none.astype(np.uint64), none.astype(np.float32)).ngrams(reader, texts).hashes
        )
        hashes = hashes[generator.random(len(hashes)) < 0.67]
        parts.append(TablePart(kind, hashes, generator.uniform(1, 9, len(hashes)).astype(np.float32)))
        weights.append(generator.normal(size=(len(hashes), outputs)).astype(np.float32))
    table = WordTable(parts, weights, generator.normal(size=outputs).astype(np.float32), language)
    table.threads = threads
    return table


@pytest.mark.parametrize("language", ["", "tr"])
@pytest.mark.parametrize("outputs", [1, 5])
def test_the_kernel_scores_as_numpy(language: str, outputs: int) -> None:
    texts = [*TEXTS, *texts_of(1, 400)]
    expected = table_of(texts, outputs, language).read(texts)
    for threads in (1, 2):
        table = table_of(texts, outputs, language, threads)
        found = table.read(texts)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)
        alone = np.concatenate([table.scores([text]) for text in texts])
        np.testing.assert_array_equal(alone, found[0])
    assert expected[0].std() > 0.5


@pytest.mark.parametrize("language", ["", "tr"])
def test_words_are_hashed_as_in_python(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words as long as the longest that is remembered, and longer ones, each several times, in blocks of texts."""
    long = ["q" * size for size in (22, 23, 24, 25, 127, 128, 129, 300)]
    texts = [*TEXTS, *texts_of(3, 400), " ".join([*long, *long]), *texts_of(3, 400)]
    wanted = NgramReader(language).word_ngrams(texts)
    monkeypatch.setattr(text_ngrams, "_AT_ONCE", 100)
    for threads in (1, 2, 5):
        found = NgramReader(language, threads).word_ngrams(texts)
        np.testing.assert_array_equal(found.hashes, wanted.hashes)
        np.testing.assert_array_equal(found.texts, wanted.texts)
    assert len(set(wanted.hashes.tolist())) > 1_000


def test_a_table_that_knows_nothing_gives_its_bias() -> None:
    empty = np.zeros(0, np.uint64), np.zeros(0, np.float32)
    table = WordTable([TablePart("words", *empty)], [np.zeros((0, 3))], np.array([1.0, 2.0, 3.0]))
    table.threads = 2
    np.testing.assert_array_equal(table.scores(["a b", ""]), [[1, 2, 3]] * 2)


def test_a_long_text_is_read_whole() -> None:
    long = " ".join(texts_of(2, 5_000))
    by_numpy, by_kernel = (table_of([long], 3, "", threads).scores([long, "a", long]) for threads in (0, 2))
    np.testing.assert_allclose(by_kernel, by_numpy, rtol=1e-5, atol=1e-5)
