"""Read pairs from a gettext catalog for translators (`.po`): each message and its translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from gettext import c2py
from pathlib import Path

from dikkat.data.gettext_catalogs import MANY, Message, align
from dikkat.data.pairs import Pair
from dikkat.data.text_files import MAX_LINE_BYTES, read_lines
from dikkat_runtime.errors import DataError

_KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d)\])?\s*(".*")\s*')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "", "b": "", "f": " ", "v": " "}
_PLURAL = re.compile(r"plural\s*=\s*([^;\n]+)")


@dataclass(slots=True)
class _Entry:
    """A message as its lines are read; the number of the line of its msgid."""

    line: int = 0
    is_fuzzy: bool = False
    strings: dict[str, str] = field(default_factory=dict)
    size: int = 0


def read_po(path: Path) -> Iterator[Pair]:
    """Yield pairs of messages and translations; what is not translated, fuzzy or obsolete is left out.

    Raises `DataError` with file and line for what is no catalog, and `MissingInputError`.
    """
    forms = (0, 1)
    for entry in _entries(path):
        source = entry.strings.get("msgid", "")
        if not source:
            forms = _forms(entry, path)
        elif not entry.is_fuzzy:
            targets = [text for key, text in sorted(entry.strings.items()) if key.startswith("msgstr")]
            sources = [source, *([entry.strings["msgid_plural"]] if "msgid_plural" in entry.strings else [])]
            if any(targets):
                for pair in align(Message(sources, targets), forms):
                    yield Pair(*pair, entry.line)


def _entries(path: Path) -> Iterator[_Entry]:
    entry, key = _Entry(), ""
    for number, line in enumerate(read_lines(path), start=1):
        text = line.strip()
        if text.startswith("#") or not text:
            if "msgstr" in key:  # what follows belongs to the next message
                yield entry
                entry, key = _Entry(), ""
            entry.is_fuzzy |= text.startswith("#,") and "fuzzy" in text
            continue
        if match := _KEYWORD.fullmatch(text):
            if "msgstr" in key and match[1] in ("msgctxt", "msgid"):
                yield entry
                entry = _Entry()
            key = match[1] + (match[2] or "")
            entry.line = number if key == "msgid" else entry.line
            text = match[3]
        if not key or not (string := _STRING.fullmatch(text)):
            raise DataError(f"{path}:{number}: not a line of a gettext catalog (.po)")
        entry.size += len(text)
        if entry.size > MAX_LINE_BYTES:
            raise DataError(f"{path}:{number}: a message of more than {MAX_LINE_BYTES:,} characters")
        entry.strings[key] = entry.strings.get(key, "") + _ESCAPE.sub(_unescaped, string[1])
    if "msgstr" in key:
        yield entry


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])


def _forms(entry: _Entry, path: Path) -> tuple[int, int]:
    """Which plural forms stand for one and for many, of the header."""
    rule = _PLURAL.search(entry.strings.get("msgstr", ""))
    try:
        form_of = c2py(rule[1].strip() if rule else "n != 1")
        return form_of(1), form_of(MANY)
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{path}:{entry.line}: its rule for plural forms cannot be read ({error})") from None
