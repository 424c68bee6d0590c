"""Ranges of an array that is read from its file are those of the array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dikkat.data import corpus
from dikkat.data.corpus import ArrayRanges

SIZE = 100_000


@pytest.fixture
def content() -> NDArray[np.uint16]:
    return np.random.default_rng(1).integers(0, 65_536, SIZE).astype(np.uint16)


@pytest.fixture
def ranges(content: NDArray[np.uint16], tmp_path: Path) -> ArrayRanges:
    np.save(tmp_path / "array.npy", content)
    return ArrayRanges(np.load(tmp_path / "array.npy", mmap_mode="r"), read_from=1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each read of a file."""
    counts: list[int] = []
    read = os.preadv

    def counted(file: int, buffers: Sequence[memoryview], offset: int) -> int:
        counts.append(read(file, buffers, offset))
        return counts[-1]

    monkeypatch.setattr(os, "preadv", counted)
    return counts


@pytest.mark.parametrize("at_once", [1 << 20, 5_000])
@pytest.mark.parametrize(
    ("starts", "most_reads"),
    [
        pytest.param(np.arange(0, SIZE - 20, 20), 64, id="near"),
        pytest.param(np.arange(0, SIZE - 20, 20)[::-1], SIZE, id="backwards"),
        pytest.param(np.random.default_rng(2).integers(0, SIZE - 20, 300), 300, id="anywhere"),
        pytest.param(np.array([3, 50_000, 99_000]), 3, id="far"),
        pytest.param(np.array([7]), 1, id="one"),
        pytest.param(np.empty(0, np.int64), 0, id="none"),
    ],
)
def test_gathered(
    starts: NDArray[np.int64],
    most_reads: int,
    at_once: int,
    content: NDArray[np.uint16],
    ranges: ArrayRanges,
    reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ranges that are near, few are read one by one: that took ten times as long as all of the file."""
    monkeypatch.setattr(corpus, "_READ_AT_ONCE", at_once)
    lengths = np.random.default_rng(3).integers(0, 20, len(starts))
    expected = [content[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    assert np.array_equal(ranges.gather(starts, lengths), np.concatenate([np.empty(0, np.uint16), *expected]))
    assert len(reads) <= most_reads
    assert max(reads, default=0) <= 2 * at_once
