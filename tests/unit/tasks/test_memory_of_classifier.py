"""Preparation of a classifier: the texts, and their ids, are never all in memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dikkat.data import corpus, disk_arrays, stored_pairs
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification import obvious_baseline, table_fitting
from dikkat.tasks.classification import prepare as preparation
from dikkat.tasks.common.settings import Request
from dikkat_runtime.tasks import word_table
from dikkat_runtime.text import text_ngrams


def word(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:04}")


def write_texts(path: Path, count: int) -> Path:
    words = "some words of a text " * 48
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            row = {"label": ("bad", "good")[n % 2], "text": f"{word(n)} {words}"}
            file.write(f"{json.dumps(row)}\n")
    return path


# seven seconds: buffers of a few texts are filled and emptied hundreds of times
@pytest.mark.nightly
def test_preparation_does_not_hold_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,200 texts of 1,000 bytes take little more than 400.

    Of a table more is read at first, to find its columns. The word table and the baseline are fitted to so many words
    at most, here to five texts and sixteen.
    """
    for module, name, value in (
        (corpus, "_BUFFERED_TOKENS", 1 << 10),
        (disk_arrays, "KEPT_BYTES", 1 << 12),
        (stored_pairs, "_READ_AT_ONCE", 1 << 4),
        (stored_pairs, "_WRITTEN_AT_ONCE", 1 << 12),
        (preparation, "_ENCODED_AT_ONCE", 1 << 3),
        (table_fitting, "MAX_WORDS", 1 << 10),
        (table_fitting, "_TEXTS_AT_ONCE", 1 << 1),
        (word_table, "_TEXTS_AT_ONCE", 1 << 1),
        (text_ngrams, "_AT_ONCE", 1 << 1),
        (table_fitting, "MAX_CHARACTERS", 1 << 10),
        (obvious_baseline, "MAX_FITTED", 1 << 14),
        (obvious_baseline, "MAX_CHARACTERS", 1 << 10),
    ):
        monkeypatch.setattr(module, name, value)
    settings: dict[str, dict[str, Any]] = {
        "tokenizer": {"kind": "characters"},
        "data": {"source_language": "en", "validation_pairs": 20},
        "classifier": {"max_tokens": 500},
    }
    # what is imported, and read once, is no text
    peaks = [measured(tmp_path, count, settings) for count in (60, 400, 1_200)]
    # a copy of 800 texts more is 800,000 bytes
    assert peaks[2] < peaks[1] + 250_000, peaks


def measured(folder: Path, count: int, settings: dict[str, dict[str, Any]]) -> int:
    """Prepare so many texts, and return the most bytes that Python and numpy held meanwhile."""
    request = Request([str(write_texts(folder / f"{count}.jsonl", count))], settings=settings)
    run = RunDirectory.create(folder / str(count))
    tracemalloc.start()
    config, report = preparation.prepare(request, run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.kept == count
    trained = len(Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size, num_classes=2))
    assert count - 20 <= trained < count
    return peak
