"""Read texts of programs as content: their format directives, hard line breaks and marks of shortcut keys."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from gettext import c2py
from itertools import count

from dikkat_runtime.documents.segments import Content, Item, Segment, Tag, plain, render, tagged, tags_of
from dikkat_runtime.errors import msg
from dikkat_runtime.text.placeholders import has_words

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
WRAPPED = re.compile(r"(?<=[^\s.:;!?])[ \t]*+\n[ \t]*+(?=[^\W\d_A-ZÀ-ÖØ-ÞĞİŞ])|(?<=[^\n]{59}[^\s.:;!?])\n(?=[^\s-])")
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
    wrapped = {match.start() + match[0].index("\n") for match in WRAPPED.finditer(text)}
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
    if mnemonic not in render(content, str):
        content = _marked(content, mnemonic)
    return render(content, str)


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


# The syntax of ICU: each branch of a plural or a choice is a text of its own, and all syntax stays.
# Source: Unicode, MessageFormat 1.0 (ICU User Guide), and the plural rules of CLDR 46.

_COMPLEX = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|select|selectordinal)\s*+,")
_HEAD = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?P<kind>plural|selectordinal|select)\s*+,(?:\s*+offset:\d++)?\s*+")
_BRANCH = re.compile(r"(?P<key>=\d++|[^\s{}]++)\s*+\{")
_WORD = re.compile(r"'[{}#|][^']*+'|\{[^{}]*+\}")
"""What is quoted, and an argument without branches."""
_PLAIN = re.compile(r"[^{}'#\0]*+")
_MAX_DEPTH = 16
"""Most arguments inside each other; people write two or three."""
BROKEN = msg("messages with malformed plurals or choices, not translated")
_PLURALS = {
    "other": "ja,ko,zh,th,vi,id,ms,lo,my,km,jv,su,yo",
    "one,few,many,other": "pl,ru,uk,be,lt,cs,sk",
    "one,few,other": "hr,sr,bs,ro,sh,mo",
    "one,two,few,other": "sl",
    "one,two,other": "he,iw",
    "zero,one,other": "lv",
    "zero,one,two,few,many,other": "ar,cy",
    "one,two,few,many,other": "ga,mt,br,gv",
    "one,many,other": "fr,es,it,pt,ca",
}
_ORDINALS = {
    "one,two,few,other": "en,ca,mr", "one,other": "fr,sv,hu,vi,ro,ms,ga,hy,lo,ne,fil,mo", "few,other": "uk,be,tk",
    "many,other": "it,kk,sc", "one,many,other": "ka,sq", "one,two,many,other": "mk", "one,few,many,other": "az",
    "one,two,few,many,other": "gu,hi,bn,as", "zero,one,two,few,many,other": "cy",
}  # fmt: skip


def _by_language(table: dict[str, str]) -> dict[str, list[str]]:
    return {language: names.split(",") for names, languages in table.items() for language in languages.split(",")}


_CATEGORIES, _ORDINAL_CATEGORIES = _by_language(_PLURALS), _by_language(_ORDINALS)


def plural_categories(language: str, *, is_ordinal: bool = False) -> list[str]:
    """Return the plural categories that a message in a language needs: of numbers of things, or of positions."""
    code = language.lower().replace("_", "-").partition("-")[0]
    if is_ordinal:
        return _ORDINAL_CATEGORIES.get(code, ["other"])
    categories = _CATEGORIES.get(code, ["one", "other"])
    # in French, Spanish and others it is of so large numbers that a message need not have it
    return [name for name in categories if "few" in categories or name != "many"]


class _SyntaxError(Exception):
    """A message that does not follow the syntax."""


def has_choices(text: str) -> bool:
    """Return whether a text holds a plural or a choice."""
    return "{" in text and _COMPLEX.search(text) is not None


def icu_content(content: Content, language: str) -> Content | None:
    """Return content in which the syntax of plurals and choices is tags that part it; None where it is broken.

    A plural gets the categories of `language` that it lacks, with what it says of `other`. Content without plurals and
    choices is returned as it is.
    """
    tags = tags_of(content)
    text = "".join(item if isinstance(item, str) else "\0" for item in content)
    if "\0" in plain(content) or not has_choices(text):
        return content
    try:
        reader = _Reader(text, tags, language)
        items, end = reader.message(0, 0, is_plural=False)
        if end == len(text) and (whole := reader.whole_branches()):
            items, end = (reader := _Reader(whole, tags, language)).message(0, 0, is_plural=False)
    except _SyntaxError:
        return None
    return tuple(item for item in items if item != "") if end == len(reader.text) else None


def icu_segments(segments: Sequence[Segment], language: str, remarks: Counter[str]) -> list[Segment]:
    """Return segments with plurals and choices read; a message of broken syntax is left out and counted."""
    read: list[Segment] = []
    for segment in segments:
        content = icu_content(segment.content, language)
        if content is None:
            remarks[BROKEN] += 1
        else:
            read.append(segment if content is segment.content else replace(segment, content=content))
    return read


def _split(text: str) -> Item:
    return Tag("void", text, parts_text=True, is_text=True)


class _Reader:
    """A reader of one message, in which a zero stands for each tag of the file."""

    def __init__(self, text: str, tags: Sequence[Tag], language: str) -> None:
        self.text, self._tags = text, iter(tags)
        self._outer: list[tuple[int, int, str, list[tuple[int, int, int]]]] = []
        """Of each argument outside of others: where it begins and ends, its head, and where its branches stand."""
        self._categories = {
            "plural": plural_categories(language),
            "selectordinal": plural_categories(language, is_ordinal=True),
        }

    def message(self, start: int, depth: int, *, is_plural: bool) -> tuple[list[Item], int]:
        """Return the items from `start` to the brace that ends them, and where that is."""
        items: list[Item] = []
        position = start
        while position < len(self.text) and self.text[position] != "}":
            character = self.text[position]
            if character == "{" and (head := _HEAD.match(self.text, position)):
                argument, position = self._argument(head, depth + 1, is_plural=is_plural or head["kind"] != "select")
                items += argument
            elif word := _WORD.match(self.text, position):
                items.append(Tag("word", word[0], position + 1, is_text=True))
                position = word.end()
            elif character == "{":
                raise _SyntaxError
            elif character == "#" and is_plural:
                items.append(Tag("word", "#", position + 1, is_text=True))
                position += 1
            elif character == "\0":
                items.append(next(self._tags))
                position += 1
            else:
                end = 2 if self.text.startswith("''", position) else 1
                plain = _PLAIN.match(self.text, position + end)
                end = plain.end() if plain else position + end
                text = self.text[position:end].replace("''", "'")
                if items and isinstance(last := items[-1], str):
                    items[-1] = last + text
                else:
                    items.append(text)
                position = end
        return items, position

    def _argument(self, head: re.Match[str], depth: int, *, is_plural: bool) -> tuple[list[Item], int]:
        if depth > _MAX_DEPTH:
            raise _SyntaxError
        items: list[Item] = [_split(head[0])]
        branches: dict[str, list[Item]] = {}
        spans: list[tuple[int, int, int]] = []
        position = head.end()
        while branch := _BRANCH.match(self.text, position):
            inner, end = self.message(branch.end(), depth, is_plural=is_plural)
            if end >= len(self.text):
                raise _SyntaxError
            branches[branch["key"]] = inner
            spans.append((branch.start(), branch.end(), end))
            space = re.compile(r"\s*").match(self.text, end + 1)
            position = space.end() if space else end + 1
            items += [_split(branch[0]), *inner, _split(self.text[end:position])]
        if "other" not in branches or self.text[position : position + 1] != "}":
            raise _SyntaxError
        if depth == 1:
            self._outer.append((head.start(), position + 1, head[0], spans))
        for category in self._categories.get(head["kind"], ()):
            if category not in branches:
                items += [_split(f" {category} {{"), *branches["other"], _split("}")]
        return [*items, _split("}")], position + 1

    def whole_branches(self) -> str:
        """Return the message with the text around its only plural or choice put into each branch; empty if none is."""
        if len(self._outer) != 1:
            return ""
        start, end, head, spans = self._outer[0]
        before, after = self.text[:start], self.text[end:]
        if not has_words(before + after) or set(before + after) & set("\0#'"):
            return ""
        branches = (f"{self.text[first:inner]}{before}{self.text[inner:last]}{after}}}" for first, inner, last in spans)
        return f"{head}{' '.join(branches)}}}"


def icu_text(text: str) -> str:
    """Return a translated text in which no apostrophe before a brace quotes it."""
    return re.sub(r"'(?=[{}#])|'$", "''", text)
