"""How a message is matched with the entries of a catalog and filled in, whatever the catalog."""

from __future__ import annotations

import pytest

from dikkat_runtime.localization import language_of
from dikkat_runtime.message_catalog import Catalog

ENTRIES = {
    "{0} of {1} files": "{1} dosyanın {0} tanesi",
    "{0} files": "{0} dosya",
    "read {0}": "okunan: {0}",
    "read {0} from {1}": "{1} içinden okunan: {0}",
    'no run is called "{0}"': '"{0}" adlı koşu yok',
    "the kind {0}": "tür {0!s}",
    "use {{braces}} for {0}": "{0} için {{süslü ayraç}}",
    "word": "sözcük",
    "not found": "bulunamadı",
    "a line\nand more": "bir satır\nve daha çok",
}


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("word", "sözcük"),
        ("  word\n", "  sözcük\n"),
        ("", ""),
        ("unknown", "unknown"),
        # the entry with most fixed text, not the first one or the shortest
        ("3 of 7 files", "7 dosyanın 3 tanesi"),
        ("read a line from b", "b içinden okunan: a line"),
        ("7 files", "7 dosya"),
        # what is filled in is said too, but not what is quoted or shown as it is
        ("read word", "okunan: sözcük"),
        ('no run is called "word"', '"word" adlı koşu yok'),
        ("the kind word", "tür word"),
        ("use {braces} for word", "sözcük için {süslü ayraç}"),
        ("a line\nand more", "bir satır\nve daha çok"),
        # a single word after a separator is rather a name
        ("x.txt: not found", "x.txt: bulunamadı"),
        ("not found: word", "bulunamadı: word"),
    ],
)
def test_a_message_is_said_by_the_entry_that_says_most(text: str, spoken: str) -> None:
    catalog = Catalog.of(ENTRIES)
    assert catalog.say(text) == spoken
    assert catalog.say(text) == spoken, "and so again"
    assert Catalog.of(dict(reversed(ENTRIES.items()))).say(text) == spoken, "whatever the order of the entries"


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "tr_TR", "LC_ALL": ""}, "tr"),
        ({"LANG": "tr_TR.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LC_ALL": "tr_TR", "LC_MESSAGES": "en_US", "LANG": "en_US"}, "tr"),
        # where the locale is C, LANGUAGE counts for nothing, in any spelling of C
        ({"LANG": "C.UTF-8", "LANGUAGE": "tr"}, "en"),
        ({"LANG": "POSIX", "LANGUAGE": "tr"}, "en"),
        ({"LANG": "tr@euro"}, "tr"),
        ({"LANG": "tr-TR"}, "tr"),
    ],
)
def test_the_strongest_variable_names_the_language(environment: dict[str, str], code: str) -> None:
    assert language_of(environment) == code
