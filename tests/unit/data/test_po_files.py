"""Catalogs as translators have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.data.readers import LanguageChoice, read_pairs
from dikkat_runtime.errors import DataError, UsageError

CATALOG = r"""# Turkish messages
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\n"

#: src/a.c:3
msgctxt "menu"
msgid "_Open file"
msgstr "Dosya _aç"

#, fuzzy
msgid "Not sure"
msgstr "Emin değil"

msgid "Not translated"
msgstr ""

msgid ""
"A long "
"message with a \"quote\"."
msgstr ""
"Tırnaklı \"uzun\" "
"bir ileti."
msgid "One file"
msgid_plural "Many files"
msgstr[0] "Bir dosya"
msgstr[1] "Birçok dosya"

#~ msgid "Old one"
#~ msgstr "Eski"
"""


def test_messages_and_translations_are_pairs(tmp_path: Path) -> None:
    path = tmp_path / "tr.po"
    path.write_text(CATALOG, encoding="utf-8")
    assert [pair[:3] for pair in read_pairs([str(path)])] == [
        ("Open file", "Dosya aç", 9),
        ('A long message with a "quote".', 'Tırnaklı "uzun" bir ileti.', 19),
        ("One file", "Bir dosya", 25),
        ("Many files", "Birçok dosya", 25),
    ]


def test_what_is_no_catalog_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tr.po"
    path.write_text('msgid "a"\nmsgstr "b"\nplain text\n')
    with pytest.raises(DataError, match=r"tr\.po:3: not a line of a gettext catalog"):
        list(read_pairs([str(path)]))


def test_a_rule_for_plurals_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path, notes = tmp_path / "tr.po", list[str]()
    path.write_text(CATALOG.replace("plural=(n > 1)", "plural=__import__('os')"), encoding="utf-8")
    assert list(read_pairs([str(path)], note=notes.append))[-1][:3] == ("Many files", "Birçok dosya", 25)
    assert "states no rule for them, read as n != 1: 1" in notes[0]


def test_what_was_passed_over_is_counted(tmp_path: Path) -> None:
    path, notes = tmp_path / "tr.po", list[str]()
    text = CATALOG.replace('"Plural-Forms', '"Language: tr\\n"\n"Plural-Forms')
    path.write_text(text, encoding="utf-8")
    assert len(list(read_pairs([str(path)], note=notes.append))) == 4
    assert notes == [f"{path}: 4 pairs of ? and tr; skipped: 1 fuzzy, 1 not translated"]
    with pytest.raises(UsageError, match="its target is in tr, but fr was asked for; give --target-language tr"):
        list(read_pairs([str(path)], languages=LanguageChoice("en", "fr")))


def test_a_catalog_in_another_charset_is_read_as_it_states(tmp_path: Path) -> None:
    path = tmp_path / "tr.po"
    path.write_bytes(CATALOG.replace("UTF-8", "ISO-8859-9").encode("iso-8859-9"))
    assert next(read_pairs([str(path)]))[:3] == ("Open file", "Dosya aç", 9)


def test_a_catalog_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not in a file of translations \(\.po\)"):
        read_pairs([str(tmp_path / "tr.po")], 1, 2)


def test_a_message_without_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "tr.po"
    path.write_text('msgid "a"\n' + f'"{"x" * 1000}"\n' * 1100)
    with pytest.raises(DataError, match=r"tr\.po:\d+: a message of more than 1,000,000 characters"):
        list(read_pairs([str(path)]))


def test_two_catalogs_given_as_lines_are_refused(tmp_path: Path) -> None:
    """`msgstr "..."` would be trained on."""
    paths = [tmp_path / f"{language}.txt" for language in ("en", "tr")]
    for path in paths:
        path.write_text(CATALOG, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        list(read_pairs([str(path) for path in paths]))
    assert str(caught.value) == (
        f"{paths[0]}: is a gettext catalog (.po), not lines of text; give it alone: its messages are pairs"
    )
