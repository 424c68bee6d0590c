"""Packed files are read by what is in them, and given up before they fill the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dikkat.data.readers import read_pairs
from dikkat_runtime.errors import DataError
from dikkat_runtime.text import packed
from dikkat_runtime.text.packed import without_packing
from dikkat_runtime.text.text_files import read_lines

TEXT = "".join(f"satır {number} ışık\n" for number in range(5_000)).encode()


def _zip(content: bytes, name: str = "train.tr", others: dict[str, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, text in (others or {}).items():
            archive.writestr(other, text)
        archive.writestr(name, content)
    return file.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": _zip,
}


def _complaint(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        for _ in read_lines(path):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["train.tr", "train.tr.gz", "train"])
def test_the_first_bytes_tell_how_a_file_is_packed(tmp_path: Path, suffix: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(PACK[suffix](TEXT))
    assert "".join(f"{line}\n" for line in read_lines(path)).encode() == TEXT


def test_text_with_the_name_of_a_packed_file_is_text(tmp_path: Path) -> None:
    """Browsers unpack what they fetch and leave its name."""
    path = tmp_path / "train.en.gz"
    path.write_bytes(b"bir\niki\n")
    assert list(read_lines(path)) == ["bir", "iki"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_packed_parts_one_after_the_other_are_one_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "x"
    padding = b"\0" * 8 if suffix == ".xz" else b""
    path.write_bytes(PACK[suffix](b"bir\n") + padding + PACK[suffix](b"iki\n"))
    assert list(read_lines(path)) == ["bir", "iki"]


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zip", "zip")])
def test_damage_is_named_with_the_kind(tmp_path: Path, suffix: str, kind: str) -> None:
    whole = PACK[suffix](TEXT)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    path = tmp_path / "train.tr"
    path.write_bytes(whole[: len(whole) // 2])
    assert _complaint(path).startswith(f"{path}: truncated or damaged {kind} (")
    path.write_bytes(bytes(flipped))
    # what is unpacked may turn out to be no UTF-8 before the checksum is reached
    assert _complaint(path).startswith(f"{path}:")


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("line", [b"a" * 63 + b"\n", b"a"])
def test_a_bomb_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, line: bytes) -> None:
    monkeypatch.setattr(packed, "UNPACKED_ALWAYS", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(PACK[suffix](line * ((1 << 22) // len(line))))
    tracemalloc.start()
    message = _complaint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "unpacks to more than " in message
    assert peak < 12_000_000, "the dictionary of xz alone is 8 MB"


def test_a_dictionary_of_xz_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.xz"
    path.write_bytes(lzma.compress(b"text\n", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]))
    assert "damaged xz (Memory usage limit exceeded)" in _complaint(path)


def test_packed_text_comes_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(bz2.compress(TEXT)), daemon=True)
    writer.start()
    assert sum(1 for _ in read_lines(pipe)) == 5_000
    writer.join()


def test_a_zip_of_one_table_is_that_table(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(_zip(b"Go.\tVa !\n", "fra/pairs.tsv", {"__MACOSX/._pairs": b"junk"}))
    assert without_packing(path) == "pairs.tsv"
    assert [pair[:2] for pair in read_pairs([str(path)])] == [("Go.", "Va !")]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"readme": b"x"}, "is a zip archive of 2 files; unpack it, and name the files to read"),
        ({"word/document.xml": b"<w/>"}, "is a Word document (.docx), not text; save its text as UTF-8 (.txt)"),
        ({"xl/workbook.xml": b"<w/>"}, "is an Excel workbook (.xlsx), not text; save its text as UTF-8 (.txt)"),
    ],
)
def test_other_archives_are_named(tmp_path: Path, others: dict[str, bytes], message: str) -> None:
    path = tmp_path / "data.tsv"
    path.write_bytes(_zip(b"x", others=others))
    assert _complaint(path) == f"{path}: {message}"


def test_a_path_in_a_zip_is_never_used(tmp_path: Path) -> None:
    path = tmp_path / "a" / "data.zip"
    path.parent.mkdir()
    path.write_bytes(_zip(b"one\n", "../../outside.txt"))
    assert list(read_lines(path)) == ["one"]
    assert [item.name for item in tmp_path.rglob("*")] == ["a", "data.zip"]


def test_descriptors_are_closed(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else None
    for suffix, pack in PACK.items():
        path = tmp_path / f"x{suffix}"
        path.write_bytes(pack(b"one\n"))
        assert list(read_lines(path)) == ["one"]
    if open_before is not None:
        assert len(os.listdir("/proc/self/fd")) == open_before
