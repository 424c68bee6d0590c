"""Read texts of programs as content: their format directives, hard line breaks and marks of shortcut keys."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from gettext import c2py
from itertools import count

from dikkat_runtime.documents.segments import Content, Item, Tag, tagged, tags_of

_C_FORMAT = re.compile(
    r"%(?:(?P<number>\d+)\$)?(?P<rest>[-+ #0'I]*+(?:\*|\d++)?(?:\.(?:\*|\d++)?)?(?:hh|h|ll|l|q|j|z|t|L)?"
    r"(?:<PRI\w+>|[diouxXeEfFgGaAcspnCSm]))|%%"
)
_PYTHON_FORMAT = re.compile(
    r"%\(\w+\)[-+ #0]*+\d*+(?:\.\d++)?[diouxXeEfFgGcrsa]|%[-+ #0]*+[\d.]*+[diouxXeEfFgGcrsa]|%%"
)
_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
_PATTERNS = {
    "c-format": _C_FORMAT, "objc-format": re.compile(_C_FORMAT.pattern + "|%(?:\\d+\\$)?@"),
    "python-format": _PYTHON_FORMAT, "python-brace-format": _BRACES, "csharp-format": _BRACES,
    "java-format": _BRACES, "c++-format": _BRACES, "php-format": _C_FORMAT, "perl-format": _C_FORMAT,
    "perl-brace-format": _BRACES,
}  # fmt: skip
_WRAPPED = re.compile(r"(?<=[^\s.:;!?])[ \t]*+\n[ \t]*+(?=[^\W\d_A-ZÀ-ÖØ-ÞĞİŞ])|(?<=[^\n]{59}[^\s.:;!?])\n(?=[^\s-])")
"""A line break inside a sentence: no full stop before it and a small letter after it, or a full line before it."""
_BREAK = re.compile(r"(?<![ \t])[ \t]*+\n[ \t]*")
_MNEMONIC = re.compile(r"(?<!\S)([_&])(?=[^\W\d_])(?!\w+;)")
_LABEL_WORDS = 6


def message_content(text: str, flags: Sequence[str] = ()) -> tuple[Content, str]:
    """Return a message as content, and the sign that marks its shortcut key, or nothing."""
    pattern = next((_PATTERNS[flag] for flag in flags if flag in _PATTERNS), None)
    marks = _MNEMONIC.findall(text)
    # a label begins with a capital: "_Open", but not "the folder _templates"
    is_label = len(marks) == 1 and text.count(" ") < _LABEL_WORDS and not text.lstrip("_&")[:1].islower()
    mnemonic = marks[0] if is_label and text.count(marks[0]) == 1 else ""
    if mnemonic:
        text = text.replace(mnemonic, "", 1)
    wrapped = {match.start() + match[0].index("\n") for match in _WRAPPED.finditer(text)}
    items: list[Item] = []
    position = 0
    for line_break in _BREAK.finditer(text):
        ends = line_break.start() + line_break[0].index("\n") not in wrapped
        items += _with_directives(text[position : line_break.start()], pattern, len(items))
        items.append(Tag("void", line_break[0], ends_sentence=ends, is_text=True))
        position = line_break.end()
    items += _with_directives(text[position:], pattern, len(items))
    return tuple(item for item in items if item != ""), mnemonic


def _with_directives(text: str, pattern: re.Pattern[str] | None, first: int) -> list[Item]:
    """Return format directives as words; each has a number of its own, since their order matters."""
    if pattern is None:
        return [text]
    numbers = count(first + 1)
    return tagged((text,), pattern, lambda match: Tag("word", match[0], next(numbers), is_text=True))


def message_text(content: Content, source: Content, mnemonic: str, flags: Sequence[str] = ()) -> str:
    """Return the text of a translated message.

    Directives of C whose order has changed are numbered, as in `%2$s`. The mark of the shortcut key goes before the
    first letter.
    """
    if "c-format" in flags:
        content = _numbered(content, source)
    if mnemonic and not any(mnemonic in (item if isinstance(item, str) else item.markup) for item in content):
        content = _marked(content, mnemonic)
    return "".join(item if isinstance(item, str) else item.markup for item in content)


def _marked(content: Content, mnemonic: str) -> Content:
    """Return content with the mark before its first letter outside directives."""
    for number, item in enumerate(content):
        if isinstance(item, str) and (letter := re.search(r"[^\W\d_]", item)):
            marked = f"{item[: letter.start()]}{mnemonic}{item[letter.start() :]}"
            return (*content[:number], marked, *content[number + 1 :])
    return content


def _numbered(content: Content, source: Content) -> Content:
    ours, theirs = _directives(source), _directives(content)
    if ours == theirs:
        return content
    parts = [_C_FORMAT.fullmatch(tag.markup) for tag in ours]
    if any(part is None or part["number"] or "*" in part["rest"] for part in parts):
        # numbered directives, or widths that are arguments too, keep the order of the source
        remaining, wanted = iter(ours), frozenset(theirs)
        return tuple(next(remaining) if item in wanted else item for item in content)
    numbers = {tag: f"%{number}${tag.markup[1:]}" for number, tag in enumerate(ours, start=1)}
    return tuple(
        Tag("word", numbers[item], item.pair, is_text=True) if isinstance(item, Tag) and item in numbers else item
        for item in content
    )


def _directives(content: Content) -> list[Tag]:
    return [tag for tag in tags_of(content) if tag.kind == "word" and tag.pair and tag.markup != "%%"]


_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,2})")
_RULE = re.compile(r"plural\s*=\s*+([^;\n]+)")
_MAX_FORMS = 10
"""Most plural forms of a catalog; no language has more than six."""


MANY = 5
"""A number for plural forms; unlike 2 it is not a dual (Arabic) and no "few" (Polish, Russian)."""


@dataclass(frozen=True, slots=True)
class PluralRule:
    """The number of plural forms, and the form of the number 1."""

    count: int
    singular: int | None
    """The form of the number 1; None where one form stands for all numbers."""
    many: int = 1
    """The form of numbers that are many in every language; see `MANY`."""
    is_known: bool = True
    """True if the catalog has a readable rule."""

    @classmethod
    def of(cls, header: str) -> "PluralRule":
        """Read the rule of a header; an unreadable rule becomes that of most languages, `n != 1`."""
        count, rule = _COUNT.search(header), _RULE.search(header)
        if count is None or rule is None or not 0 < int(count[1]) <= _MAX_FORMS:
            return cls(2, 0, is_known=False)
        try:
            form_of = c2py(rule[1].strip())
            forms = [form_of(number) for number in range(200)]
        except (ValueError, ArithmeticError, RecursionError, SyntaxError):
            return cls(int(count[1]), 0 if int(count[1]) > 1 else None, is_known=False)
        alone = forms[1] if int(count[1]) > 1 else None
        return cls(int(count[1]), alone, forms[MANY])

    def takes_singular(self, form: int) -> bool:
        """Return whether a form is translated from the singular of the source."""
        return form == self.singular
