"""The two languages say the same things with the same numbers in them."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from dikkat.explain import languages
from dikkat.explain.head_analysis.messages import HeadMessages
from dikkat.explain.messages import Messages, messages_for
from dikkat.explain.report.messages import ReportMessages
from dikkat.explain.report.reader_messages import ReaderMessages
from dikkat_runtime.errors import UsageError
from dikkat_runtime.message_catalog import read_entries


def texts(part: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text with its place."""
    if isinstance(part, str):
        yield path, part
    elif is_dataclass(part):
        for field in fields(part):
            yield from texts(getattr(part, field.name), f"{path}.{field.name}")
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from texts(value, f"{path}.{key}")
    else:
        assert isinstance(part, tuple)
        for index, value in enumerate(part):
            yield from texts(value, f"{path}.{index}")


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


ENGLISH, TURKISH = (dict(texts(messages_for(language))) for language in ("en", "tr"))


def test_both_languages_have_the_same_texts() -> None:
    assert list(ENGLISH) == list(TURKISH)
    assert len(ENGLISH) > 50


@pytest.mark.parametrize("place", ENGLISH)
def test_a_text_has_the_same_blanks_in_both(place: str) -> None:
    assert blanks(ENGLISH[place]) == blanks(TURKISH[place])
    assert ENGLISH[place] != TURKISH[place]


def test_the_catalog_has_every_text_once_and_no_other() -> None:
    """A text that it lacks would stay English in a Turkish report, without a word."""
    tables = (Messages(), ReportMessages(), ReaderMessages(), HeadMessages())
    english = {text for table in tables for _, text in texts(table) if text}
    catalog = read_entries(Path(languages.__file__).parent / "locale/tr/LC_MESSAGES/explain.po")
    assert sorted(text for text, _ in catalog) == sorted(english)
    for text, spoken in catalog:
        assert blanks(text) == blanks(spoken)


@pytest.mark.seed("D18", "F24")
def test_turkish_uses_the_terms_of_the_turkish_textbook() -> None:
    messages = " ".join(TURKISH.values()).lower()
    for term in ("özdikkat", "çapraz dikkat", "sorgu", "anahtar", "değer", "konumsal kodlama", "kodçözücü", "belirteç"):
        assert term in messages
    for mistake in ("pozitif kodlama", "dikkat havuzu", "kendi kendine dikkat"):
        assert mistake not in messages


def test_an_unknown_language() -> None:
    with pytest.raises(UsageError, match='there is no explanation in "de"; choose from en, tr'):
        messages_for("de")
