"""Subtitles, tables and pages in charsets of before Unicode, which no mark names."""

from __future__ import annotations

import sys

import pytest
from tests.unit.documents.stand_ins import in_order, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError

CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
TURKISH = "Şu küçük kızın güneşli bahçesinde bugün çok güzel çiçekler açmış, değil mi?"
FRENCH = "L’été dernier, le garçon a mangé à l’hôtel « La Forêt » où il était né…"


@pytest.mark.parametrize(
    ("text", "charset", "language"),
    [(TURKISH, "cp1254", "tr"), (FRENCH, "cp1252", "fr"), ("a café is open", "cp1252", "")],
)
@pytest.mark.parametrize(
    ("name", "body"), [("a.srt", CUE), ("a.tsv", "{}\n"), ("a.md", "{}\n"), ("a.html", "<p>{}</p>")]
)
def test_an_old_charset_is_guessed_told_and_written_again(
    text: str, charset: str, language: str, name: str, body: str
) -> None:
    pytest.importorskip("charset_normalizer", reason="needs dikkat-runtime[detect]")
    data = body.format(text).encode(charset)
    document = translate_document(
        data, name, lambda texts: list(texts), align=in_order, options=Options(language, "en")
    )
    assert document.data.decode(charset).startswith(body.format(text).rstrip("\n"))
    assert [line for line in document.lines() if "a guess, and written in it" in line]


def test_a_letter_that_the_charset_lacks_is_told_or_a_reference() -> None:
    pytest.importorskip("charset_normalizer", reason="needs dikkat-runtime[detect]")
    page = f"<p>{FRENCH}</p>".encode("cp1252")
    assert b"&#322;" in translate_document(page, "a.html", lambda texts: ["ł" for _ in texts]).data
    with pytest.raises(DataError, match="has no 'ł', which a translation needs"):
        translate_document(CUE.format(FRENCH).encode("cp1252"), "a.srt", lambda texts: ["ł" for _ in texts])


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    with pytest.raises(DataError, match=r"^a\.srt: is not UTF-8, .*; pip install dikkat-runtime.detect. "):
        translate_document(CUE.format(FRENCH).encode("cp1252"), "a.srt", shouting)
