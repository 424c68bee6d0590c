"""Catalogs as translators have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.data.readers import read_pairs
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
    assert list(read_pairs([str(path)])) == [
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
    path.write_text('msgid ""\nmsgstr "Plural-Forms: plural=__import__(\'os\');\\n"\n')
    with pytest.raises(DataError, match=r"tr\.po:1: its rule for plural forms cannot be read"):
        list(read_pairs([str(path)]))


def test_a_catalog_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not in a catalog \(\.po\)"):
        read_pairs([str(tmp_path / "tr.po")], 1, 2)


def test_a_message_without_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "tr.po"
    path.write_text('msgid "a"\n' + f'"{"x" * 1000}"\n' * 1100)
    with pytest.raises(DataError, match=r"tr\.po:\d+: a message of more than 1,000,000 characters"):
        list(read_pairs([str(path)]))


@pytest.mark.parametrize("suffix", ["po", "txt"])
def test_two_catalogs_given_as_lines_are_refused(tmp_path: Path, suffix: str) -> None:
    """`msgstr "..."` would be trained on."""
    paths = [tmp_path / f"{language}.{suffix}" for language in ("en", "tr")]
    for path in paths:
        path.write_text(CATALOG, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        list(read_pairs([str(path) for path in paths]))
    assert str(caught.value) == (
        f"{paths[0]}: is a gettext catalog (.po), not lines of text; give it alone: its messages are pairs"
    )
