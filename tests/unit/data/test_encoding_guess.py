"""Text in the encodings that came before UTF-8: which one it reads like, and the command that converts it."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.text_files import STANDARD_INPUT, decode_lines, guess_encoding, read_lines

TEXTS = {
    "windows-1252": [
        "Où est la bibliothèque ?",
        "“Good”, she said – twice.",
        "El niño está aquí.",
        "Hér er góð bók, þú.",
    ],
    "windows-1254": ["Güneş ışığı çok güzel.", "İstanbul'da yağmur yağıyor", "Şu dağ ne kadar yüksek?"],
    "windows-1250": ["Zażółć gęślą jaźń, proszę.", "To była długa podróż."],
    "windows-1251": ["Собака спит на диване.", "Где находится библиотека?"],
    "koi8-r": ["Собака спит на диване.", "Где находится библиотека?"],
    "windows-1253": ["Ο σκύλος κοιμάται στον καναπέ."],
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_the_encoding_of_a_line_is_guessed(encoding: str, text: str) -> None:
    assert guess_encoding(text.encode(encoding)) == encoding


@pytest.mark.parametrize(
    "raw", ["déjà vu".encode() + b"\xff", "çok".encode()[:-1] + b"\xc3\xa7 \xe9", "狗在睡觉".encode("gb18030")]
)
def test_damaged_utf8_and_other_scripts_are_not_guessed_at(raw: bytes) -> None:
    assert guess_encoding(raw) == ""


@pytest.mark.parametrize(("encoding", "text"), [(name, texts[0]) for name, texts in TEXTS.items()])
def test_the_advice_is_a_command_that_converts_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("my file.txt")
    path.write_bytes(f"A plain line.\n{text}\n".encode(encoding))
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    message, _, advice = str(caught.value).partition("convert it with: ")
    assert message.endswith(f"is not valid UTF-8 (column in characters); it reads like {encoding}; ")
    subprocess.run(["sh", "-c", advice], check=True)
    assert list(read_lines(Path("utf8.txt"))) == ["A plain line.", text]


def test_text_that_is_piped_in_has_no_file_to_convert() -> None:
    raw = "Où est la bibliothèque ?".encode("windows-1252")
    with pytest.raises(DataError) as caught:
        list(decode_lines(io.BytesIO(raw), STANDARD_INPUT))
    command = str(caught.value).partition("pipe it through: ")[2]
    converted = subprocess.run(["sh", "-c", command], input=raw, check=True, capture_output=True)
    assert converted.stdout.decode() == "Où est la bibliothèque ?"
