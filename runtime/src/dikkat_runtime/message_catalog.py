"""The messages of one language, read from gettext catalogs.

An entry has numbered braces for what is filled in ("{0}: is a folder"). A message is said by the entry that it matches,
the one with most fixed text first, and so are its parts: what is filled in, and what stands before or behind a colon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path

_ENTRY = re.compile(r'^msgid "(.+)"\nmsgstr "(.+)"$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PART = re.compile(r"\{\{|\}\}|\{(\d+)(!s)?\}")
"""What is filled in; with "!s" in a translation it is shown as it is, though it may be a word of the catalog."""
_NUMBER = re.compile(r"\{\d+\}")
_COUNTED = re.compile(r"\| [^\W\d]+")
_PROGRAM = ("dikkat: ",)
"""The beginnings of an error on a command line."""
_SEPARATORS = re.compile(r"; |: | – ")
_MAX_KEPT = 4096
"""Messages whose translations are kept for the next time."""
_QUOTES = (('"', '"'), ("“", "”"), ("`", "`"), ("'", "'"))
"""What stands around a value that is shown as it was typed."""


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
        bounds = zip(values, self.parts, self.parts[1:], strict=False)
        typed = {number for number, before, behind in bounds if _is_name(values[number], before, behind)}

        def filled(part: re.Match[str]) -> str:
            if not part[1]:
                return part[0][0]
            number, value = int(part[1]), values[int(part[1])]
            return value if part[2] or number in typed else say(value)

        return _PART.sub(filled, self.spoken)


def _is_name(value: str, before: str, behind: str) -> bool:
    """Return whether what is filled in between two fixed parts is shown as it was typed: quoted, an option, a file."""
    is_quoted = any(before.endswith(begin) and behind.startswith(end) for begin, end in _QUOTES)
    is_file = not before and behind.startswith(":") and " " not in value
    return is_quoted or is_file or before.endswith("--")


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
            if len(self._said) >= _MAX_KEPT:
                # the lines of a progress differ each time
                self._said.clear()
            self._said[core] = self._translated(core) or self._pieced(core) or core
        return text.replace(core, self._said[core], 1)

    def _translated(self, text: str) -> str | None:
        if text in self.whole:
            return self.whole[text]
        for longest, template in self.templates:
            if text.startswith(_PROGRAM) and not any(map(str.isalpha, longest)):
                # marks alone fit the program and its message together, which no catalog has
                continue
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


def read_entries(path: Path) -> list[tuple[str, str]]:
    """Return every translated entry of a gettext catalog (.po) without plural forms; the header is none."""
    # a long string may go on in the next line
    joined = path.read_text(encoding="utf-8").replace('"\n"', "")
    return [(_plain(text), _plain(spoken)) for text, spoken in _ENTRY.findall(joined)]


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda pair: _ESCAPES.get(pair[1], pair[1]), text) if "\\" in text else text
