"""Corpus: what goes in comes out of the memory map, and damage is named."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dikkat.data.corpus as corpus_module
from dikkat.data import corpus as array_ranges
from dikkat.data.corpus import Corpus
from dikkat_runtime.errors import DataError, DiskError, MissingInputError

PAIRS = [([5, 6, 7], [8, 9]), ([10], []), ([], [11, 12, 13, 14]), ([15, 16], [17])]
SEQUENCE = st.lists(st.integers(0, 2**32 - 1), max_size=9)


@settings(max_examples=30)
@given(st.lists(st.tuples(SEQUENCE, SEQUENCE), max_size=9))
def test_pairs_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int]]]
) -> None:
    corpus = Corpus.build(tmp_path_factory.mktemp("corpus"), "train", pairs)
    assert [(corpus.source(i).tolist(), corpus.target(i).tolist()) for i in range(len(corpus))] == pairs
    assert corpus.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert corpus.target_lengths.tolist() == [len(target) for _, target in pairs]


def test_a_corpus_in_memory_is_the_same(tmp_path: Path) -> None:
    built, held = Corpus.build(tmp_path, "train", PAIRS), Corpus.in_memory(PAIRS)
    assert held.fingerprint() == built.fingerprint()
    for side in ("source", "target"):
        for ours, theirs in zip(held.gather(np.array([3, 0]), side), built.gather(np.array([3, 0]), side), strict=True):
            assert np.array_equal(ours, theirs)
    assert len(Corpus.in_memory([])) == 0


@pytest.mark.parametrize(("largest", "width"), [(65_535, 2), (65_536, 4)])
def test_ids_take_two_bytes_where_they_fit(tmp_path: Path, largest: int, width: int) -> None:
    corpus = Corpus.build(tmp_path, "train", [*PAIRS, ([largest], [4])])
    assert corpus.source(4).tolist() == [largest]
    assert np.load(tmp_path / "train.ids.npy").dtype.itemsize == width


def test_writing_in_blocks_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Corpus.build(tmp_path, "whole", PAIRS)
    monkeypatch.setattr(corpus_module, "_BUFFERED_TOKENS", 3)
    blocks = Corpus.build(tmp_path, "blocks", iter(PAIRS))
    assert (tmp_path / "blocks.ids.npy").read_bytes() == (tmp_path / "whole.ids.npy").read_bytes()
    assert blocks.fingerprint() == whole.fingerprint()


def test_gather_takes_many_rows_at_once(tmp_path: Path) -> None:
    corpus = Corpus.build(tmp_path, "train", PAIRS)
    flat, lengths = corpus.gather(np.array([3, 1, 0, 3]), "source")
    assert flat.tolist() == [15, 16, 10, 5, 6, 7, 15, 16]
    assert lengths.tolist() == [2, 1, 3, 2]
    assert corpus.gather(np.array([2, 1]), "target")[0].tolist() == [11, 12, 13, 14]


def test_indexes_outside_are_refused(tmp_path: Path) -> None:
    corpus = Corpus.build(tmp_path, "train", PAIRS)
    assert corpus.target(-1).tolist() == [17]
    for outside in (4, -5):
        with pytest.raises(IndexError):
            corpus.source(outside)


def test_fingerprint_is_the_sha256_of_offsets_and_ids(tmp_path: Path) -> None:
    offsets = np.array([0, 3, 5, 6, 6, 6, 10, 12, 13], "<i8")
    ids = np.arange(5, 18).astype("<u4")
    expected = hashlib.sha256(offsets.tobytes() + ids.tobytes()).hexdigest()
    assert Corpus.build(tmp_path, "train", PAIRS).fingerprint() == expected
    assert Corpus.open(tmp_path, "train", vocab_size=18).fingerprint() == expected
    other = [*PAIRS[:3], ([15], [16, 17])]  # the same ids, cut elsewhere
    assert Corpus.build(tmp_path, "other", other).fingerprint() != expected


def test_missing_corpus(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"train\.ids\.npy: there is no such corpus; prepare the data again"):
        Corpus.open(tmp_path, "train", vocab_size=18)


@pytest.mark.parametrize("name", ["train.ids.npy", "train.offsets.npy"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    whole = (tmp_path / name).read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole + b"\0", b"not numpy" * 30):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DataError, match=rf"{name}: damaged \(.*\); prepare the data again"):
            Corpus.open(tmp_path, "train", vocab_size=18)


def test_other_arrays_are_refused(tmp_path: Path) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    for wrong in (np.zeros(13, np.float32), np.zeros((13, 1), np.uint16)):
        np.save(tmp_path / "train.ids.npy", wrong)
        with pytest.raises(DataError, match=r"damaged \(a (float32|uint16) array of shape \(13,"):
            Corpus.open(tmp_path, "train", vocab_size=18)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    np.save(tmp_path / "train.ids.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"train\.ids\.npy: damaged"):
        Corpus.open(tmp_path, "train", vocab_size=18)


def test_files_of_two_corpora_do_not_mix(tmp_path: Path) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    beyond_64_bits = [0, 2**63 - 1, -(2**63), 13, 13]
    for wrong in ([0, 3], [0, 3, 4], [1, 3, 13], [0, 14, 13], beyond_64_bits):
        np.save(tmp_path / "train.offsets.npy", np.array(wrong, np.int64))
        with pytest.raises(DataError, match=r"offsets\.npy: does not fit train\.ids\.npy \(13 ids\)"):
            Corpus.open(tmp_path, "train", vocab_size=18)


@pytest.mark.parametrize(("position", "wrong"), [(0, 18), (7, 65_535), (12, 18)])
def test_an_id_outside_the_vocabulary_is_named(tmp_path: Path, position: int, wrong: int) -> None:
    """A flipped bit, or a run from a stranger: such an id would be an index into the weights of the vocabulary."""
    Corpus.build(tmp_path, "train", PAIRS)
    ids = np.load(tmp_path / "train.ids.npy")
    ids[position] = wrong
    np.save(tmp_path / "train.ids.npy", ids)
    message = (
        rf"train\.ids\.npy: token {position + 1} of 13 is {wrong}, but the vocabulary ends at 17; prepare the data"
    )
    with pytest.raises(DataError, match=message):
        Corpus.open(tmp_path, "train", vocab_size=18)
    Corpus.open(tmp_path, "train", vocab_size=wrong + 1)


def test_an_id_outside_the_vocabulary_is_named_behind_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    monkeypatch.setattr(corpus_module, "_BUFFERED_TOKENS", 4)
    with pytest.raises(DataError, match="token 11 of 13 is 15, but the vocabulary ends at 14"):
        Corpus.open(tmp_path, "train", vocab_size=15)


def test_each_text_has_one_class_that_there_is(tmp_path: Path) -> None:
    Corpus.build(tmp_path, "train", [([5, 6], [0]), ([7], [1]), ([], [2])])
    Corpus.open(tmp_path, "train", vocab_size=8, num_classes=3)
    with pytest.raises(DataError, match=r"train\.ids\.npy: text 3 is of class 2, but the last class is 1"):
        Corpus.open(tmp_path, "train", vocab_size=8, num_classes=2)
    np.save(tmp_path / "train.offsets.npy", np.array([0, 2, 3, 3, 5, 5, 6], np.int64))
    with pytest.raises(DataError, match=r"train\.offsets\.npy: text 2 does not have exactly one class"):
        Corpus.open(tmp_path, "train", vocab_size=8, num_classes=3)


def test_a_text_may_have_any_number_of_classes_that_there_are(tmp_path: Path) -> None:
    Corpus.build(tmp_path, "train", [([5, 6], []), ([7], [1, 0]), ([6], [2])])
    opened = Corpus.open(tmp_path, "train", vocab_size=8, num_classes=3, any_number_of_classes=True)
    assert [opened.target(text).tolist() for text in range(3)] == [[], [1, 0], [2]]
    with pytest.raises(DataError, match=r"train\.ids\.npy: text 3 is of class 2, but the last class is 1"):
        Corpus.open(tmp_path, "train", vocab_size=8, num_classes=2, any_number_of_classes=True)


def test_flipped_bits_of_the_headers_are_refused_or_change_nothing(tmp_path: Path) -> None:
    whole = Corpus.build(tmp_path, "train", PAIRS).fingerprint()
    for name in ("train.ids.npy", "train.offsets.npy"):
        content = (tmp_path / name).read_bytes()
        for bit in range(0, 8 * 128, 5):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            (tmp_path / name).write_bytes(damaged)
            try:
                result = Corpus.open(tmp_path, "train", vocab_size=18)
            except DataError:
                continue
            assert result.fingerprint() == whole
        (tmp_path / name).write_bytes(content)


def test_a_full_disk_is_one_line_and_keeps_the_old_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Corpus.build(tmp_path, "train", PAIRS).fingerprint()
    calls = 0

    def full_the_second_time(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full_the_second_time)
    with pytest.raises(DiskError, match=r"train\.ids\.npy: cannot write the corpus: No space left on device; free"):
        Corpus.build(tmp_path, "train", PAIRS[:2])
    assert Corpus.open(tmp_path, "train", vocab_size=18).fingerprint() == before
    assert sorted(os.listdir(tmp_path)) == ["train.ids.npy", "train.offsets.npy"]


def test_stopped_between_the_two_files_it_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    rename = os.replace

    def stop_before_the_offsets(old: Path, new: Path) -> None:
        if new.name.endswith("offsets.npy"):
            raise KeyboardInterrupt
        rename(old, new)

    monkeypatch.setattr(os, "replace", stop_before_the_offsets)
    with pytest.raises(KeyboardInterrupt):
        Corpus.build(tmp_path, "train", [([1] * 13, [])])  # as many ids as before: only the cuts differ
    with pytest.raises(MissingInputError, match=r"train\.offsets\.npy: there is no such corpus"):
        Corpus.open(tmp_path, "train", vocab_size=18)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DiskError, match="cannot write the corpus: File exists"):
        Corpus.build(tmp_path / "taken", "train", PAIRS)


def test_a_failing_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    def pairs() -> Iterator[tuple[list[int], list[int]]]:
        yield PAIRS[0]
        raise DataError("data.tsv:2: bad line")

    with pytest.raises(DataError, match=r"data\.tsv:2"):
        Corpus.build(tmp_path, "train", pairs())
    assert os.listdir(tmp_path) == []


def test_what_is_read_of_a_large_file_is_what_its_map_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    pairs = [(random.integers(0, 99, n % 7).tolist(), random.integers(0, 99, n % 5).tolist()) for n in range(500)]
    mapped = Corpus.build(tmp_path, "train", pairs)
    monkeypatch.setattr(array_ranges.ArrayRanges.__init__, "__defaults__", (1,))
    read = Corpus.open(tmp_path, "train", vocab_size=99)
    assert read.ids._file is not None
    assert mapped.ids._file is None
    assert [(read.source(i).tolist(), read.target(i).tolist()) for i in range(500)] == pairs
    assert read.fingerprint() == mapped.fingerprint()
    rows = random.permutation(500)
    for side in ("source", "target"):
        expected = [pair[side == "target"] for pair in pairs]
        ids, lengths = read.gather(rows, side)
        assert ids.tolist() == [token for row in rows for token in expected[row]]
        assert lengths.tolist() == read.lengths(side)[rows].tolist() == [len(expected[row]) for row in rows]
        assert read.lengths(side)[7:400].tolist() == [len(ids) for ids in expected[7:400]]
        assert read.lengths(side)[400:7].tolist() == []
    assert np.concatenate(list(read.blocks())).tolist() == mapped.ids.read(0, 10**9).tolist()


def test_a_corpus_that_becomes_shorter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.build(tmp_path, "train", PAIRS)
    monkeypatch.setattr(array_ranges.ArrayRanges.__init__, "__defaults__", (1,))
    corpus = Corpus.open(tmp_path, "train", vocab_size=18)
    os.truncate(tmp_path / "train.ids.npy", (tmp_path / "train.ids.npy").stat().st_size - 4)
    with pytest.raises(DataError, match=r"train\.ids\.npy: became shorter while it was read"):
        corpus.gather(np.array([0, 3]), "source")
