"""Lines of UTF-8: what a line is, every way a file can be bad, and memory."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.text.text_files import decode_lines, read_lines, read_text_lines


def _write(folder: Path, content: bytes, name: str = "train.en") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _decode(content: bytes, limit: int = 1000) -> list[str]:
    return list(decode_lines(io.BytesIO(content), "standard input", limit))


def _complaint(path: Path, kind: type[DataError | MissingInputError] = DataError, limit: int = 1_000_000) -> str:
    with pytest.raises(kind) as caught:
        list(read_lines(path, limit))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"]), max_size=30)))
def test_lines_split_at_line_feeds_only(lines: list[str]) -> None:
    content = "".join(line + "\n" for line in lines).encode()
    assert list(decode_lines(io.BytesIO(content), "standard input", 1000)) == lines


def test_separators_that_are_not_line_ends_stay_in_the_line() -> None:
    text = "a\u2028b\u0085c\x0bd\x0ce\x1cf\rg"
    assert _decode(f"{text}\nnext".encode()) == [text, "next"]


def test_windows_line_ends_and_byte_order_mark_are_dropped() -> None:
    assert _decode(b"\xef\xbb\xbfone\r\n\r\ntwo\r\r\nthree\r") == ["one", "", "two\r", "three"]


def test_a_stream_may_be_empty_and_hold_empty_lines() -> None:
    assert _decode(b"") == []
    assert _decode(b"\n\n") == ["", ""]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    assert list(read_lines(_write(tmp_path, b"bir\niki"))) == ["bir", "iki"]


def test_gzip_is_read_by_its_suffix(tmp_path: Path) -> None:
    path = _write(tmp_path, gzip.compress("güneş\nışık\n".encode()), "train.tr.GZ")
    assert list(read_lines(path)) == ["güneş", "ışık"]


def test_a_missing_file_offers_the_nearest_name(tmp_path: Path) -> None:
    _write(tmp_path, b"x\n", "train.en.gz")
    _write(tmp_path, b"x\n", "notes.md")
    path = tmp_path / "train.en"
    assert _complaint(path, MissingInputError) == f'{path}: there is no such file; did you mean "train.en.gz"?'


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "corpus" / "train.en"
    assert _complaint(path, MissingInputError).endswith(f"there is no folder {tmp_path / 'corpus'} either")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert _complaint(tmp_path, MissingInputError) == f"{tmp_path}: is a folder; name a file in it"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = _write(tmp_path, b"x\n") / "inside"
    assert _complaint(path, MissingInputError) == f"{path}: cannot be read: Not a directory"


@pytest.mark.parametrize(
    ("name", "content"), [("a.en", b""), ("a.en", b"\xef\xbb\xbf"), ("a.en.gz", gzip.compress(b"", mtime=0))]
)
def test_an_empty_file(tmp_path: Path, name: str, content: bytes) -> None:
    path = _write(tmp_path, content, name)
    assert _complaint(path) == f"{path}: the file is empty"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("text", ["A dog runs.\nIt sleeps.\n", "\nGüneş ışığı\n"])
def test_utf16_is_recognised_with_and_without_its_mark(tmp_path: Path, encoding: str, text: str) -> None:
    path = _write(tmp_path, text.encode(encoding))
    assert _complaint(path) == f"{path}: looks like UTF-16; convert with iconv -f UTF-16 -t UTF-8"


def test_one_stray_zero_byte_is_not_utf16(tmp_path: Path) -> None:
    for content in (b"A dog\0 runs.\n", b"A first line\na\0\n", b"A first line\n\0\n"):
        assert "\0" in "".join(read_lines(_write(tmp_path, content)))


def test_lines_that_end_in_carriage_returns_alone_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = _write(tmp_path, b"A dog.\rA cat.\rA bird.\r")
    with pytest.raises(DataError) as caught:
        list(read_text_lines(path))
    assert str(caught.value) == (
        f"{path}: holds one line, with carriage returns (\\r) in it, as old Macs end lines; make lines of them:"
        f" tr '\\r' '\\n' < {path} > lines.txt"
    )
    # one at the end is a line end of Windows, and one inside of many lines is text
    assert list(read_text_lines(_write(tmp_path, b"A dog.\r"))) == ["A dog."]
    assert list(read_text_lines(_write(tmp_path, b"A dog.\rruns\nB\n"))) == ["A dog.\rruns", "B"]


def test_invalid_utf8_names_line_and_column_in_characters(tmp_path: Path) -> None:
    path = _write(tmp_path, "good\nışık çok g".encode() + b"\xfczel\nmore\n")
    assert _complaint(path).startswith(f"{path}:2:11: byte 0xFC is not valid UTF-8 (column in characters)")


def test_encoded_surrogates_and_cut_sequences_are_invalid() -> None:
    for content in (b"ab\xed\xa0\x80", b"ab\xc3"):
        with pytest.raises(DataError, match=r"^standard input:1:3: "):
            _decode(content)


def test_a_line_of_five_megabytes_is_named_and_not_held(tmp_path: Path) -> None:
    path = _write(tmp_path, b"short\n" + b"a" * 5_000_000 + b"\nshort\n")
    tracemalloc.start()
    message = _complaint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message.startswith(f"{path}:2: the line has 5,000,000 bytes, over the limit of 1,000,000;")
    assert peak < 3_500_000


def test_the_limit_counts_bytes_without_the_line_end() -> None:
    assert _decode(b"a" * 8 + b"\n" + b"b" * 8, limit=8) == ["a" * 8, "b" * 8]
    for content in (b"a" * 9 + b"\n", b"a" * 9):
        with pytest.raises(DataError, match=r"^standard input:1: the line has 9 bytes, over the limit of 8;"):
            _decode(content, limit=8)


def test_a_stream_without_end_is_given_up() -> None:
    class Endless:
        def readline(self, size: int, /) -> bytes:
            return b"a" * size

    with pytest.raises(DataError, match=r"^pipe:1: the line has more than [\d,]+ bytes"):
        list(decode_lines(Endless(), "pipe", 1000))


def test_truncated_and_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % number for number in range(5000)))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], bytes(flipped), whole[:-6] + b"\0" * 6):
        path = _write(tmp_path, content, "train.en.gz")
        assert _complaint(path).startswith(f"{path}: truncated or damaged gzip (")


def test_a_large_file_is_read_in_constant_memory(tmp_path: Path) -> None:
    path = _write(tmp_path, b"A dog runs over the green grass beside the river.\n" * 200_000)
    tracemalloc.start()
    count = sum(1 for _ in read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200_000
    assert path.stat().st_size > 9_000_000
    assert peak < 500_000
