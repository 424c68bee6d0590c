"""Files that are no text are named for what they are, and text never is."""

from __future__ import annotations

import io
import pickle
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.file_kinds import binary_kind, markup_kind
from dikkat_runtime.text.text_files import read_lines


def _image(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind)
    return file.getvalue()


def _database(folder: Path) -> bytes:
    connection = sqlite3.connect(folder / "x.db")
    connection.execute("create table t (a text)")
    connection.commit()
    connection.close()
    return (folder / "x.db").read_bytes()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("train.en"), io.BytesIO())
    return file.getvalue()


def _array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(9))
    return file.getvalue()


def test_binary_files_are_named(tmp_path: Path) -> None:
    result = {
        "an image (PNG)": _image("PNG"),
        "an image (JPEG)": _image("JPEG"),
        "an image (GIF)": _image("GIF"),
        "an SQLite database": _database(tmp_path),
        "a tar archive": _tar(),
        "a NumPy array": _array(),
        "a Python pickle": pickle.dumps(["text"] * 5, protocol=4),
        "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
        "binary data": bytes(range(256)) * 4,
    }
    for kind, content in result.items():
        path = tmp_path / "train.en"
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            list(read_lines(path))
        assert str(caught.value).startswith(f"{path}: is {kind}, not text; "), kind


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=80))
def test_text_is_no_binary_data(text: str) -> None:
    assert binary_kind(f"BZh {text}".encode()) is None
    assert binary_kind(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('# comment\n\nmsgid ""\nmsgstr ""\n', "a gettext catalog (.po)"),
        ('<?xml version="1.0"?>\n<tmx version="1.4">', "a translation memory (.tmx)"),
        ('<?xml version="1.0"?>\n<!-- by hand -->\n<xliff version="1.2">', "an XLIFF file (.xlf)"),
        ("<!DOCTYPE html>\n<html>", "an HTML page"),
        ("\n<html lang='tr'>", "an HTML page"),
        ('<?xml version="1.0"?><feed>', "an XML file"),
    ],
)
def test_markup_is_named(text: str, kind: str) -> None:
    assert (markup_kind(text.split("\n")) or "").startswith(f"{kind}, not lines of text; ")


@pytest.mark.parametrize("text", ["", "msgid is a word.", "<b>Bold</b> text", "# A title\nText", "< 5 and > 3"])
def test_lines_of_text_are_no_markup(text: str) -> None:
    assert markup_kind(text.split("\n")) is None
