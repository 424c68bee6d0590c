"""The texts of explanations and reports in another language, from a gettext catalog of their own.

They are templates with names in braces, and many are single words: among the messages of commands, where what is filled
in is looked up too, "key" or "model" would be taken for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dikkat_runtime.localization import LANGUAGES
from dikkat_runtime.message_catalog import read_entries

_Texts = TypeVar("_Texts")


def spoken(texts: _Texts, language: str) -> _Texts:
    """Return a dataclass of English texts in one of `LANGUAGES`, with all that it holds."""
    if language == LANGUAGES[0]:
        return texts
    translated: _Texts = _translated(texts, _entries(language))
    return translated


def _translated(value: Any, entries: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return entries.get(value, value)
    if isinstance(value, tuple):
        return tuple(_translated(item, entries) for item in value)
    if isinstance(value, dict):
        return {key: _translated(item, entries) for key, item in value.items()}
    return replace(value, **{item.name: _translated(getattr(value, item.name), entries) for item in fields(value)})


@cache
def _entries(language: str) -> Mapping[str, str]:
    return dict(read_entries(Path(__file__).parent / f"locale/{language}/LC_MESSAGES/explain.po"))
