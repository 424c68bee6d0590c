"""Documents: files and folders of text, and what is held out of them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest

from dikkat.data import documents
from dikkat.data.disk_arrays import DiskFile
from dikkat.data.documents import FEW_DOCUMENTS, Document, StoredText, read_documents, split_documents
from dikkat_runtime.errors import DataError, MissingInputError


def document(name: str, text: str) -> Document:
    return Document(name, StoredText.store([text], DiskFile(None)))


def test_a_file_is_one_document_and_a_folder_many(tmp_path: Path) -> None:
    """In the order of their names, through sub-folders; other, hidden and empty files are no text."""
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "z.txt").write_bytes(b"last\r\nline")
    (tmp_path / "b" / "a.md.gz").write_bytes(gzip.compress("çok\n\nşey\n".encode()))
    for name in ("picture.png", ".hidden.txt", ".git/log.txt", "c.csv"):
        (tmp_path / name).write_bytes(b"\xff\x00")
    (tmp_path / "empty.txt").write_bytes(b"")
    odd = tmp_path / "c.csv"
    odd.write_text("named, so read", encoding="utf-8")
    result = list(read_documents([str(tmp_path), str(odd)]))
    assert [document.text for document in result] == ["çok\n\nşey\n", "last\nline\n", "named, so read\n"]
    assert result[0].name == str(tmp_path / "b" / "a.md.gz")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        list(read_documents([str(tmp_path / "none.txt")]))
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(MissingInputError, match=r"holds no text: no file named \*\.txt"):
        list(read_documents([str(tmp_path)]))
    with pytest.raises(DataError, match="the file is empty"):
        list(read_documents([str(tmp_path / "empty.txt")]))
    (tmp_path / "latin.txt").write_bytes(b"ok\n\xe9t\xe9\n")
    with pytest.raises(DataError, match=r"latin\.txt:2:1: byte 0xE9"):
        list(read_documents([str(tmp_path)]))


def test_the_last_tenth_of_one_document_is_held_out() -> None:
    """Cut where nanoGPT cuts, so that losses can be compared."""
    text = "".join(chr(97 + number % 26) for number in range(1003))
    (train,), (held_out,) = split_documents([document("a", text)], seed=1)
    assert (train.text, held_out.text) == (text[: int(1003 * 0.9)], text[int(1003 * 0.9) :])
    assert (train.begins, train.ends, held_out.begins, held_out.ends) == (True, False, False, True)


def test_whole_documents_are_held_out_and_near_duplicates_stay_together() -> None:
    texts = [f"document about the number {'xyz'[number % 3]}{chr(97 + number // 3)} " * 5 for number in range(90)]
    documents = [document(str(number), text) for number, text in enumerate([*texts, *map(str.upper, texts)])]
    train, held_out = split_documents(documents, seed=1)
    assert sorted(map(id, [*train, *held_out])) == sorted(map(id, documents))
    assert 0.05 < len(held_out) / len(documents) <= 0.1
    assert not {item.text.lower() for item in train} & {item.text.lower() for item in held_out}
    again = split_documents(documents[::-1], seed=1)[1]
    assert {item.name for item in again} == {item.name for item in held_out}
    assert {item.name for item in split_documents(documents, seed=2)[1]} != {item.name for item in held_out}


def test_too_little_text_is_refused() -> None:
    for tiny in ([document("tiny", "a")], [document("same", "the same")] * FEW_DOCUMENTS):
        with pytest.raises(DataError, match="too little text to train on one part and validate on another"):
            split_documents(tiny, seed=1)


def test_a_packed_line_of_a_gigabyte_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"a" * 20_000_000))
    monkeypatch.setattr(documents, "_MAX_LINE_LENGTH", 1_000_000)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"bomb\.txt\.gz:1: the line has 20,000,000 bytes, over the limit of 1,000,000"):
        list(read_documents([str(path)]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("name", ["a.txt.bz2", "a.md.xz", "a.rst"])
def test_packed_documents_of_a_folder_are_read(tmp_path: Path, name: str) -> None:
    text = "ışık\n".encode()
    packed = {".bz2": bz2.compress(text), ".xz": lzma.compress(text)}
    (tmp_path / name).write_bytes(packed.get(Path(name).suffix, text))
    assert [document.text for document in read_documents([str(tmp_path)])] == ["ışık\n"]
