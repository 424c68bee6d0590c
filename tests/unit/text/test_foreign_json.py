"""Files of other people are read with memory in proportion to their size, whatever the limit of their format is."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_regular


def test_a_small_file_takes_little_memory_whatever_the_limit_is(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"x" * 100_000)
    tracemalloc.start()
    content = read_regular(path, 1 << 32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert content == b"x" * 100_000
    assert peak < 300_000


def test_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"")
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="has more than 1,000 bytes"):
        read_regular(path, 1_000)
