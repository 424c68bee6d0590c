"""Arrays on disk: what goes in comes out, sorted as Python sorts it, however little fits into memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dikkat.data.disk_arrays as module
from dikkat.data.disk_arrays import KEPT_BYTES, DiskArray, DiskFile, Records, sorted_records
from dikkat_runtime.errors import DiskError

RECORD = np.dtype([("key", "<u8"), ("index", "<i8")])
ENTRIES = st.lists(st.tuples(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), st.integers(-3, 3)), max_size=40)


def in_blocks(entries: list[tuple[int, int]], size: int) -> Iterator[Records]:
    for start in range(0, len(entries), size):
        yield np.array(entries[start : start + size], RECORD)


@settings(max_examples=100)
@given(ENTRIES, st.integers(1, 7), st.integers(1, 50))
def test_records_come_in_the_order_of_their_fields(entries: list[tuple[int, int]], size: int, most: int) -> None:
    blocks = list(sorted_records(in_blocks(entries, size), most=most))
    assert [tuple(record) for block in blocks for record in block.tolist()] == sorted(entries)


def test_many_parts_are_merged_a_few_records_at_a_time() -> None:
    numbers = np.random.default_rng(1).integers(0, 2**64, 5_000, np.uint64)
    entries = [(number, index) for index, number in enumerate(numbers.tolist())]
    blocks = list(sorted_records(in_blocks(entries, 64), most=300))
    assert [tuple(record) for block in blocks for record in block.tolist()] == sorted(entries)
    assert max(map(len, blocks)) <= 300


@pytest.mark.parametrize("seed", range(5))
def test_any_number_of_parts_is_sorted_as_numpy_sorts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    count, most = (int(number) for number in generator.integers([0, 48], [2_000, 96]))
    records = np.empty(count, RECORD)
    # ties in the first field, and records that are there more than once
    records["key"], records["index"] = generator.integers(0, count // 9 + 1, count), generator.integers(-3, 3, count)
    found = list(sorted_records([records[: count // 3], records[count // 3 :]], most=most))
    assert np.concatenate([records[:0], *found]).tobytes() == np.sort(records, order=["key", "index"]).tobytes()


@pytest.mark.parametrize(("parts", "levels"), [(4, 1), (5, 2), (17, 3), (64, 3)])
def test_many_parts_cost_time_in_proportion(parts: int, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most, looks, num_up_to = 64, [0], module._num_up_to

    def counted(records: Records, last: Records) -> int:
        looks[0] += 1
        return num_up_to(records, last)

    monkeypatch.setattr(module, "_num_up_to", counted)
    monkeypatch.setattr(module, "MERGED_AT_ONCE", 4)
    keys = np.random.default_rng(parts).integers(0, 2**63, parts * most, np.uint64)
    records = np.zeros(len(keys), RECORD)
    records["key"] = keys
    found = np.concatenate(list(sorted_records([records], most=most)))
    assert found["key"].tolist() == sorted(keys.tolist())
    # each round empties at least one of the shares that are read, 4 a part and level, and looks at 4 ranges at most
    assert looks[0] <= levels * 4 * 4 * parts


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=9), max_size=9), st.integers(0, 30), st.integers(0, 30))
def test_an_array_gives_back_what_was_appended(blocks: list[list[int]], start: int, stop: int) -> None:
    array = DiskArray.of((np.array(block, np.int64) for block in blocks), np.int64)
    whole = [number for block in blocks for number in block]
    assert len(array) == len(whole)
    assert array.read(start, stop).tolist() == whole[start:stop]
    assert np.concatenate([array.read(0, 0), *array.blocks(4)]).tolist() == whole


def test_a_large_file_has_no_name_and_gives_back_any_part(tmp_path: Path) -> None:
    file = DiskFile(tmp_path)
    content = os.urandom(KEPT_BYTES + 1000)
    for start in range(0, len(content), 100_001):
        file.append(content[start : start + 100_001])
        assert file.read(start, start + 7) == content[start : start + 7]
    assert file.read(KEPT_BYTES - 5, KEPT_BYTES + 5) == content[KEPT_BYTES - 5 : KEPT_BYTES + 5]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskFile(tmp_path)
    file.append(b"whole")

    def full(content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file._file, "write", full)
    with pytest.raises(DiskError, match=f"{tmp_path}: writing failed: No space left on device"):
        file.append(b"more")
