"""Say messages in the language of whoever reads them: English, as the sources have it, or that of a gettext catalog.

Exceptions and notes hold English text, which programs may read. Only where a command prints is it turned into the
spoken language, by `localized`. An entry of a catalog has numbered braces for what is filled in ("{0}: is a folder"),
and a message is matched against them. In English no catalog is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path

from dikkat_runtime.errors import UsageError

LANGUAGES = ("en", "tr")
"""Codes of the languages that commands speak; the first needs no catalog."""
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables that name the locale of messages, the strongest first."""
_ENTRY = re.compile(r'^msgid "(.+)"\nmsgstr "(.+)"$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PART = re.compile(r"\{\{|\}\}|\{(\d+)(!s)?\}")
"""What is filled in; with "!s" in a translation it is shown as it is, though it may be a word of the catalog."""
_NUMBER = re.compile(r"\{\d+\}")
_COUNTED = re.compile(r"\| [^\W\d]+")
_SEPARATORS = re.compile(r"; |: | – ")
_QUOTES = (('"', '"'), ("“", "”"), ("`", "`"), ("'", "'"))
"""What stands around a value that is shown as it was typed."""

_folders = [Path(__file__).parent]
_chosen: list[str] = []


@dataclass(frozen=True, slots=True)
class _Template:
    """An entry with something to fill in."""

    text: str
    spoken: str
    parts: tuple[str, ...]
    """The fixed text before, between and behind what is filled in."""

    @property
    def longest(self) -> str:
        """Return the longest fixed part, by which most templates are ruled out."""
        return max(self.parts, key=len)

    def values(self, text: str) -> dict[int, str] | None:
        """Return what is filled in, by number; None where `text` is not of this template."""
        matched = _pattern(self.parts).fullmatch(text)
        numbers = (int(part[1]) for part in _PART.finditer(self.text) if part[1])
        return None if matched is None else dict(zip(numbers, matched.groups(), strict=True))

    def fill(self, values: Mapping[int, str], say: Callable[[str], str]) -> str:
        """Return the text in the other language; values are said in it too, unless they are quoted."""
        around = zip(values, self.parts, self.parts[1:], strict=False)
        typed = {number for number, before, behind in around if _is_quoted(before, behind)}

        def filled(part: re.Match[str]) -> str:
            if not part[1]:
                return part[0][0]
            number = int(part[1])
            return values[number] if part[2] or number in typed else say(values[number])

        return _PART.sub(filled, self.spoken)


def _is_quoted(before: str, behind: str) -> bool:
    """Return whether what is filled in between two fixed parts is shown as it was typed."""
    return before.endswith("--") or any(before.endswith(a) and behind.startswith(b) for a, b in _QUOTES)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Hold the messages of one language: whole ones, and those with something to fill in, the longest first."""

    whole: dict[str, str]
    templates: list[tuple[str, _Template]]
    """Each behind its longest fixed part."""
    _said: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Mapping[str, str]) -> Catalog:
        """Make a catalog of English entries and their translations."""
        whole, templates = dict[str, str](), list[tuple[int, str, _Template]]()
        for text, spoken in entries.items():
            parts = tuple(map(_unescaped, _NUMBER.split(text)))
            if len(parts) == 1:
                whole[parts[0]] = _unescaped(spoken)
            else:
                template = _Template(text, spoken, parts)
                templates.append((-sum(map(len, parts)), template.longest, template))
        templates.sort(key=itemgetter(0))
        return cls(whole, [(longest, template) for _, longest, template in templates])

    def say(self, text: str) -> str:
        """Return a message in the language of the catalog; as it is where the catalog does not have it."""
        core = text.strip()
        if not core:
            return text
        if core not in self._said:
            self._said[core] = self._translated(core) or self._pieced(core) or core
        return text.replace(core, self._said[core], 1)

    def _translated(self, text: str) -> str | None:
        if text in self.whole:
            return self.whole[text]
        for longest, template in self.templates:
            if longest in text and (values := template.values(text)) is not None:
                return template.fill(values, self.say)
        return None

    def _pieced(self, text: str) -> str | None:
        """Say a text of which only what is before or behind a separator is known, such as the reason behind a file."""
        for separator in _SEPARATORS.finditer(text):
            head, tail = text[: separator.start()], text[separator.end() :]
            # a single word behind a separator is rather a name than a message
            said = self._translated(head) or head, self.say(tail) if " " in tail else tail
            if said != (head, tail):
                return f"{said[0]}{separator[0]}{said[1]}"
        return None


@cache
def _pattern(parts: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches the fixed parts with anything between.

    What follows a value at once begins with a mark, and what stands before a single word is a number.
    """
    if _COUNTED.fullmatch("|".join(parts)):
        return re.compile(rf"([\d.,]+){re.escape(parts[1])}")
    first, *others = parts
    pattern, is_behind_value = re.escape(first), False
    for part in others:
        pattern += (r"((?:[,;(]| \().*?|)" if is_behind_value else "(.*?)") + re.escape(part)
        is_behind_value = not part
    return re.compile(pattern, re.DOTALL)


def _unescaped(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}") if "{{" in text or "}}" in text else text


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
    return re.split("[_.@-]", locale, maxsplit=1)[0]


def take_language(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--language CODE`, wherever it stands before `--`, and speak that language.

    Raises `UsageError` for a code that is missing or not known.
    """
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
    entries: dict[str, str] = {}
    for folder in _folders:
        for path in sorted(folder.glob(f"locale/{code}/LC_MESSAGES/*.po")):
            entries |= read_entries(path)
    return Catalog.of(entries)


def read_entries(path: Path) -> list[tuple[str, str]]:
    """Return every translated entry of a gettext catalog (.po) without plural forms; the header is none."""
    # a long string may go on in the next line
    joined = path.read_text(encoding="utf-8").replace('"\n"', "")
    return [(_plain(text), _plain(spoken)) for text, spoken in _ENTRY.findall(joined)]


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda pair: _ESCAPES.get(pair[1], pair[1]), text) if "\\" in text else text
