"""Files that declare a charset: those of text are read, all other codecs of Python are refused in one line."""

from __future__ import annotations

import encodings
import pkgutil
from encodings.aliases import aliases
from pathlib import Path

import pytest
from tests.unit.documents.stand_ins import unchanged

from dikkat.data.translations import Census, LanguageChoice, read_translations
from dikkat_runtime.documents.po import write_mo
from dikkat_runtime.errors import DataError

CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} | set(aliases))
NO_CHARSETS = (
    "idna",
    "punycode",
    "undefined",
    "rot13",
    "base64",
    "hex",
    "zlib",
    "unicode_escape",
    "klingon",
    "x" * 500,
)
_HEADER = "Content-Type: text/plain; charset={}"


def files(charset: str) -> dict[str, bytes]:
    """A file of each format that says its charset."""
    xml = f'<?xml version="1.0" encoding="{charset}"?>'
    texts = {
        "a.po": f'msgid ""\nmsgstr "{_HEADER.format(charset)}\\n"\n\nmsgid "a dog"\nmsgstr ""\n',
        "a.xlf": f'{xml}<xliff><file><trans-unit id="1"><source>a dog</source></trans-unit></file></xliff>',
        "a.tmx": f'{xml}<tmx><body><tu><tuv xml:lang="en"><seg>a dog</seg></tuv></tu></body></tmx>',
        "a.html": f'<meta charset="{charset}"><p>a dog',
    }
    catalog = write_mo({b"": _HEADER.format(charset).encode(), b"a dog": b""})
    return {"a.mo": catalog, **{name: text.encode() for name, text in texts.items()}}


def complaints(name: str, data: bytes, folder: Path) -> list[str]:
    """What the reader of documents and that of data refuse."""
    told = []
    try:
        unchanged(data, name)
    except DataError as error:
        told.append(str(error))
    path = folder / name
    path.write_bytes(data)
    try:
        if name != "a.html":
            list(read_translations(path, path.suffix, LanguageChoice(), Census(str(path))))
    except DataError as error:
        told.append(str(error))
    return told


@pytest.mark.parametrize("charset", NO_CHARSETS)
def test_a_codec_that_is_no_charset_is_refused_in_one_line(charset: str, tmp_path: Path) -> None:
    for name, data in files(charset).items():
        told = complaints(name, data, tmp_path)
        assert len(told) == (1 if name == "a.html" else 2), name
        for message in told:
            assert "is unknown or not for text; correct what the file declares" in message
            assert "\n" not in message
            assert len(message) < 300


def test_every_codec_of_python_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    for charset in CODECS:
        for name, data in files(charset).items():
            for message in complaints(name, data, tmp_path):
                assert name in message
                assert "\n" not in message
