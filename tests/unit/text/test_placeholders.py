"""What of a text is no language, and what of it a translation lost."""

from __future__ import annotations

import pytest

from dikkat_runtime.text.placeholders import has_words, lost


@pytest.mark.parametrize(
    "text",
    ["", "  ", "-", "...", "—", "1", "1,234.50 €", "00:00:02,830 --> 00:00:05,560", "%s", "%(name)s / %1$d", "{name}",
     "{{ count }}", "${HOME}", "<br/>", "<i class='x'></i>", "&nbsp;", "https://example.org/a?b=c", "me@example.org",
     "😀😀", "\u0301\u0301", "٣٫٥", "Http://h.io/q?a=1", "HTTPS://Example.com/Path", "WWW.Example.ORG", "Www.x.org/a",
     "FTP://a.b/c", "sftp://a/b", "MailTo:Me@Example.ORG", "mailto:a@b.c?subject=the%20dog", "Me.You@EXAMPLE.Com",
     "[X19X]"],
)  # fmt: skip
def test_there_is_nothing_to_translate(text: str) -> None:
    assert not has_words(text)


@pytest.mark.parametrize(
    "text", ["a", "<b>x</b>", "&lt;none&gt;", "%d items", "100 km", "看", "ก", "Hello {name}", "и"]
)
def test_there_is_something_to_translate(text: str) -> None:
    assert has_words(text)


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello {name}, {count} new", "Nom de {name}, {count.", [("placeholder", "{count}")]),
        ("Open %s: %s", "Ouvrir %s :", [("placeholder", "%s")]),
        ("Open %s: %s", "Ouvrir %s : %s", []),
        ("Click <b>here</b>", "Clic <b>ici</b>", []),
        ("Click <b>here</b>", "Clic <b><heb>/<b>", [("tag", "</b>")]),
        ("Visit https://example.org/help?id=42.", "Visttttps:/existoramp.org/help", [("URL", "https://example.org/help?id=42")]),
        ("See https://example.org/a.", "Voir (https://example.org/a)", []),
        ("To me@example.org", "À @example.org", [("e-mail", "me@example.org")]),
        ("It has 1,234,567 bytes", "Il a 1 234 567 octets", []),
        ("It has 1,234,567 bytes", "Il a 1\u202f234\u202f567 octets", []),
        ("It has 1,234,567 bytes", "Il a 1000276 octets", [("number", "1234567")]),
        ("At 14:07 on 2024-03-05", "Le 5 3 2024 à 14 h 7", []),
        ("2 and 2 are 4", "2 et deux font 4", [("number", "2")]),
        ("٣ كتب", "3 books", []),
        ("HTTPS://A.org/b is", "des rois", [("URL", "HTTPS://A.org/b")]),
        ("nothing", "rien", []),
    ],
)  # fmt: skip
def test_what_does_not_survive_is_named(source: str, translation: str, expected: list[tuple[str, str]]) -> None:
    kinds, gone = lost(source, translation)
    assert gone == expected
    assert {kind for kind, _ in gone} <= kinds


@pytest.mark.parametrize("unit", ["{", "<a ", "a@", "%(", "http://", "&a", "1,", "1,000", "a.", "%", "\\", "@a."])
def test_a_long_text_of_one_kind_survives_in_itself(unit: str) -> None:
    """A pattern whose time is quadratic in the text would not come back for hours."""
    text = unit * (100_000 // len(unit))
    assert has_words(text + " word")
    assert lost(text, text)[1] == []
