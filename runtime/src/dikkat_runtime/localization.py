"""Say messages in the language of whoever reads them: English, as the sources have it, or that of a gettext catalog.

Exceptions and notes hold English text, which programs may read. Only where a command prints is it turned into the
spoken language, by `localized`. In English no catalog is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.errors import UsageError

if TYPE_CHECKING:
    from dikkat_runtime.message_catalog import Catalog

LANGUAGES = ("en", "tr")
"""Codes of the languages that commands speak; the first needs no catalog."""
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables that name the locale of messages, the strongest first."""
_folders = [Path(__file__).parent]
_chosen: list[str] = []


def add_catalogs(folder: Path) -> None:
    """Also take the catalogs of another package, `locale/LANGUAGE/LC_MESSAGES/*.po` in its folder."""
    if folder not in _folders:
        _folders.append(folder)
        _catalog.cache_clear()


def set_language(code: str) -> None:
    """Choose the spoken language. Raises `UsageError` for one that there is no catalog of."""
    if code not in LANGUAGES:
        raise UsageError(f'messages are not spoken in "{code}"; choose from {", ".join(LANGUAGES)}')
    _chosen[:] = [code]


def language() -> str:
    """Return the code of the spoken language: the one that was set, else that of the environment."""
    if not _chosen:
        _chosen.append(language_of(os.environ))
    return _chosen[0]


def language_of(environment: Mapping[str, str]) -> str:
    """Return the language that LANGUAGE or the locale asks for, as gettext reads them; English where none is known."""
    locale = next((environment[name] for name in _VARIABLES if environment.get(name)), "C")
    wanted = [locale]
    if _primary(locale) not in ("C", "POSIX"):
        wanted = [*environment.get("LANGUAGE", "").split(":"), locale]
    return next((code for code in map(_primary, wanted) if code in LANGUAGES), LANGUAGES[0])


def _primary(locale: str) -> str:
    return locale.replace("-", "_").partition("_")[0].partition(".")[0].partition("@")[0]


def pop_language_option(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--language CODE`, wherever it stands before `--`, and speak that language.

    Raises `UsageError` for a code that is missing or not known.
    """
    # every command line decides anew
    _chosen.clear()
    kept, words = list[str](), iter(arguments)
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        name, has_value, code = word.partition("=")
        if name == "--language":
            set_language(code if has_value else next(words, ""))
        else:
            kept.append(word)
    return kept


def localized(text: str, spoken: str = "") -> str:
    """Return a message in the spoken language, or in that of the code `spoken`."""
    code = spoken or language()
    return text if code == LANGUAGES[0] else _catalog(code).say(text)


def localized_lines(text: str) -> str:
    """Return a text of several lines, each of them in the spoken language."""
    return text if language() == LANGUAGES[0] else "\n".join(map(localized, text.split("\n")))


@cache
def _catalog(code: str) -> Catalog:
    # in English, nothing of this is loaded
    from dikkat_runtime.message_catalog import Catalog, read_entries

    entries: dict[str, str] = {}
    for folder in _folders:
        for path in sorted(folder.glob(f"locale/{code}/LC_MESSAGES/*.po")):
            entries |= read_entries(path)
    return Catalog.of(entries)
