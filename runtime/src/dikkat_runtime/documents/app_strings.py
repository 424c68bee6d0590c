"""Read the texts of programs: a value of a key is a text, and what the program puts into it stays.

Here the readers of `.properties` (Java) and `.strings` (Apple); those of JSON, YAML and XML share their rules.
Sources: java.util.Properties and java.text.MessageFormat (Java SE 21); Apple, Resource Programming Guide.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.icu import has_choices, icu_segments
from dikkat_runtime.documents.segments import Content, Edit, Kind, Options, Segment, Tag, is_unchanged, render, tagged
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

_FILLED = re.compile(
    r"%\{[^{}\s]{1,80}\}|%#@\w{1,80}@|\$t\([^()]{1,200}\)|\$\w{1,80}\$|@:[\w.]{1,80}|#\{[^{}\s]{1,80}\}"
    r"|%(?:\d{1,2}\$)?@|<%[^%]{0,200}%>|&(?!nbsp;|shy;)\w{1,30};"
)
"""What programs fill into a text, besides the placeholders of every format."""
_COPIED = r"<(?P<code>code|pre|kbd|samp|script|style)\b[^<>]{0,400}>(?:(?!</?(?P=code)\b)[^\0]){0,2000}?</(?P=code)>"
_HIDDEN = r"<!(?:--(?:(?!-->)[^\0]){0,2000}-->|[A-Za-z][^<>]{0,400}>)"
_BORDER = (
    r"(?<!\s)\s*+(?:</?(?:p|div|li|[uod]l|h[1-6]|table|t[rdh]|thead|tbody|hr|section|blockquote|d[dt]|option)\b[^<>]{0,400}>\s*)++"
    r"|(?:</[\w:-]{1,40}>)++(?:<[\w:-]{1,40}(?:\s[^<>]{0,400})?>)++"
)
_PART = re.compile(rf"(?P<border>{_BORDER})|{_COPIED}|{_HIDDEN}|{_FILLED.pattern}")
"""What stands between two texts of HTML, code, and what is filled in."""
_CODE = re.compile(r"\S*(?:[_/\\@#=<>|{}]|\w[.:]\w|[a-z][A-Z]|\d)\S*|[a-z]+(?:-[a-z]+)+")
CODE = msg("values that are names, addresses or numbers, left as they are")
SURROGATES = msg("values with half of a surrogate pair, left as they are")
Copy = tuple[int, str, str]
"""Where a copy of a translation is inserted, and what stands before and after it."""


def app_content(text: str) -> Content:
    """Return a text with what a program fills into it as words of their own; blocks of HTML are texts of their own."""

    def tag(match: re.Match[str]) -> Tag:
        is_border = match.lastgroup is not None and match["border"] is not None
        kind: Kind = "void" if is_border else "word"
        return Tag(kind, match[0], match.start() + 1, is_text=True, parts_text=is_border)

    return tuple(tagged((text,), _PART if "<" in text else _FILLED, tag))


@dataclass
class AppStrings:
    """The texts of a file of a program."""

    file: DecodedFile
    options: Options
    remarks: Counter[str] = field(default_factory=Counter)
    segments: list[Segment] = field(default_factory=list)
    also: list[Edit] = field(default_factory=list)

    def add(
        self, start: int, end: int, text: str, write: Callable[[str], str], *, is_prose: bool = True,
        copies: Sequence[Copy] = (), is_new: bool = False,
    ) -> None:  # fmt: skip
        """Add the `text` of the characters `start` to `end`, which `write` renders anew.

        One that is not certain to be prose is left alone where it looks like code. Of a translation `copies` are added;
        one that `is_new` is written even where it is its source.
        """
        if not has_words(text) and not has_choices(text):
            return
        if any("\ud800" <= character < "\ue000" for character in text):
            self.remarks[SURROGATES] += 1
        elif not is_prose and _CODE.fullmatch(text):
            self.remarks[CODE] += 1
        else:
            content = app_content(text)

            def edits(translation: Content) -> Iterable[Edit]:
                written = write(render(translation, str))
                if is_new or not is_unchanged(translation, content):
                    yield Edit(start, end, written)
                yield from (Edit(position, position, before + written + after) for position, before, after in copies)

            self.segments.append(Segment(content, edits, self.file.line(start)))

    def document(self) -> TextDocument:
        """Return the document, its plurals and choices in the syntax of ICU read."""
        segments = icu_segments(self.segments, self.options.target_language, self.remarks)
        return TextDocument(self.file, segments, self.remarks, self.also)


_LINE = re.compile(
    r"[ \t\f]*+(?:[#!][^\r\n]*+|(?P<key>(?:\\(?:\r\n|.)|[^\s:=\\])++)[ \t\f]*+(?:[:=][ \t\f]*+)?"
    r"(?P<value>(?:\\(?:\r\n|.)|[^\\\r\n])*+))?\\?(?:\r\n|[\r\n]|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|\r[ \t\f]*|u([0-9a-fA-F]{4})|(.))|\\\Z", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ARGUMENT = re.compile(r"\{\d")


def _unescaped(raw: str) -> str:
    """Return a value with its escapes resolved; two of them may be one character outside of the first plane."""
    text = _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2] or ""), raw
    )
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if "\\u" in raw else text


def _escaped(text: str, *, is_ascii: bool) -> str:
    text = text.replace("\\", "\\\\")
    for letter, character in _LETTERS.items():
        text = text.replace(character, "\\" + letter)
    text = re.sub(r"^ ", r"\\ ", text)
    if is_ascii:
        units = (character.encode("utf-16-be") for character in text if ord(character) > 126)
        text = "".join(character if ord(character) < 127 else _units(next(units)) for character in text)
    return text


def _units(encoded: bytes) -> str:
    return "".join(f"\\u{encoded[at]:02x}{encoded[at + 1]:02x}" for at in range(0, len(encoded), 2))


def read_properties(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the values of a file of properties, in UTF-8 or in Latin-1; `\\uXXXX` is written where it has been."""
    try:
        file = DecodedFile.decode(data, name)
    except DataError:
        file = DecodedFile.decode(data, name, "iso-8859-1")
    strings = AppStrings(file, options)
    is_ascii = file.text.isascii() or "\\u" in file.text or file.charset != "utf-8"
    values = list[tuple[int, int, str]]()
    position = 0
    while position < len(file.text):
        line = _LINE.match(file.text, position)
        if line is None or line.end() == position:
            raise DataError("{name}:{line}: not a line of properties, such as key=value", name, file.line(position))
        if line["value"]:
            values.append((*line.span("value"), _unescaped(line["value"])))
        position = line.end()
    # MessageFormat reads '' as one apostrophe, other libraries do not; where no text tells, Java's is meant
    formats = [text for _, _, text in values if _ARGUMENT.search(text) and "'" in text]
    is_doubled = not formats or any("''" in text for text in formats)
    for start, end, text in values:
        doubles = is_doubled and _ARGUMENT.search(text) is not None and not re.search("'[{}]", text)

        def write(translation: str, doubles: bool = doubles) -> str:
            return _escaped(translation.replace("'", "''") if doubles else translation, is_ascii=is_ascii)

        strings.add(start, end, text.replace("''", "'") if doubles else text, write, is_prose=False)
    return strings.document()


_STRINGS = re.compile(
    r"""\s++|/\*.*?\*/|//[^\r\n]*+|(?:"(?:\\.|[^"\\])*+"|[\w.$:/-]++)"""
    r"""(?:\s|/\*.*?\*/)*+(?:=(?:\s|/\*.*?\*/)*+(?:"(?P<value>(?:\\.|[^"\\])*+)"|(?P<bare>[\w.$:/-]++))\s*+)?;""",
    re.DOTALL,
)
_APPLE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|([0-7]{3})|(.))", re.DOTALL)


def read_strings(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the values of a file of Apple's `.strings`, in UTF-8 or UTF-16. Raises `DataError` for one compiled."""
    if data.startswith(b"bplist"):
        raise DataError("{name}: is a compiled property list; plutil -convert strings writes its text", name)
    # older files are UTF-16 without a mark
    head = data[:2]
    file = DecodedFile.decode(
        data, name, "utf-16-le" if head[1:] == b"\0" else "utf-16-be" if head[:1] == b"\0" else None
    )
    strings, position = AppStrings(file, options), 0
    while position < len(file.text):
        entry = _STRINGS.match(file.text, position)
        if entry is None:
            raise DataError('{name}:{line}: not an entry such as "key" = "value";', name, file.line(position))
        if entry["value"]:
            text = _APPLE.sub(
                lambda match: (
                    chr(int(match[1] or match[2], 16 if match[1] else 8))
                    if not match[3]
                    else _LETTERS.get(match[3], match[3])
                ),
                entry["value"],
            )
            strings.add(*entry.span("value"), text, _apple)
        position = entry.end()
    return strings.document()


def _apple(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
