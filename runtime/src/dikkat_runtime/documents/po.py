"""Read gettext catalogs for translators (`.po`, `.pot`), and compiled ones (`.mo`).

Only messages without a translation, or with a fuzzy one, are translated, and are marked fuzzy, since nobody has read
the translation yet. Source: GNU gettext manual, "The Format of PO Files".
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.messages import PluralRule, icu_segments, message_content, message_text
from dikkat_runtime.documents.segments import Content, Edit, Options, Segment
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.text_files import require_charset

_LINE = re.compile(r"[^\n]+\n?|\n")
_KEYWORD = re.compile(
    r'\s*+(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d{1,3})\])?)\s*+(?P<string>".*")?+\s*+'
)
_STRING = re.compile(r'\s*(?P<string>"(?:[^"\\]|\\.)*+")\s*')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', **{code: f"\\{letter}" for letter, code in _ESCAPES.items()}})
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_LANGUAGE = re.compile(r"^Language:[ \t]*([A-Za-z]{2,3}(?:[_@-][^\W_]+)*+)[ \t]*$", re.MULTILINE)
_WIDTH = 76
MAX_MESSAGE_LENGTH = 1_000_000
"""Characters of a message with its translations."""


@dataclass(slots=True)
class _Entry:
    line: int = 0
    first: int | None = None
    """Beginning of its keywords, or of the lines of the message before it."""
    flags_at: tuple[int, int] | None = None
    flags: list[str] = field(default_factory=list)
    strings: dict[str, str] = field(default_factory=dict)
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """From the first quotation mark of a string to after the last; several with comments between its lines."""
    size: int = 0


def read_po(data: bytes, name: str, options: Options) -> TextDocument:
    """Read messages of a catalog that have no translation, or a fuzzy one. Raises `DataError` with the line."""
    file = DecodedFile.decode(data, name, charset_of_catalog(data))
    remarks: Counter[str] = Counter()
    segments: list[Segment] = []
    rule, seen = PluralRule.of(""), set[tuple[str | None, str]]()
    for entry in _entries(_LINE.findall(file.text), name):
        if "msgid" not in entry.strings:
            raise DataError("{name}:{line}: the message has no msgid", name, file.line(entry.first or 0))
        source = entry.strings["msgid"]
        if not source and "msgctxt" not in entry.strings:
            rule = PluralRule.of(entry.strings.get("msgstr", ""))
            continue
        if (key := (entry.strings.get("msgctxt"), source)) in seen:
            remarks[msg("messages that occur twice (msgfmt refuses such a catalog)")] += 1
        seen.add(key)
        forms = [key for key in entry.strings if key.startswith("msgstr")]
        if not forms or not set(entry.strings) <= set(entry.spans):
            raise DataError("{name}:{line}: the message has no msgstr", name, entry.line)
        if all(entry.strings[form] for form in forms) and "fuzzy" not in entry.flags:
            remarks[msg("messages that are translated already")] += 1
        elif "msgid_plural" not in entry.strings:
            segments.append(_segment(entry, forms[0], source, file))
        elif obstacle := _plural_obstacle(entry, rule):
            remarks[obstacle] += 1
        else:
            segments += _plural_forms(entry, rule, file)
    return TextDocument(file, icu_segments(segments, options.target_language, remarks), remarks)


@dataclass(frozen=True, slots=True)
class CatalogMessage:
    """A message with all its forms: singular and plural of the source, and the translations in their order."""

    sources: list[str]
    targets: list[str]
    line: int
    is_fuzzy: bool
    rule: PluralRule
    language: str
    """The language in the header; empty where it names none."""


def stream_po(lines: Iterable[str], name: str) -> Iterator[CatalogMessage]:
    """Yield the messages of a catalog of any size, translated or not. Raises `DataError` with the line."""
    rule, language = PluralRule.of(""), ""
    for entry in _entries(lines, name):
        source = entry.strings.get("msgid")
        targets = [text for key, text in sorted(entry.strings.items()) if key.startswith("msgstr")]
        if source is None or not targets:
            raise DataError("{name}:{line}: the message has no {keyword}").fill(
                name, entry.line, "msgid" if source is None else "msgstr"
            )
        if not source and "msgctxt" not in entry.strings:
            rule, stated = PluralRule.of(targets[0]), _LANGUAGE.search(targets[0])
            language = stated[1] if stated else ""
            continue
        plural = entry.strings.get("msgid_plural")
        sources = [source] if plural is None else [source, plural]
        yield CatalogMessage(sources, targets, entry.line, "fuzzy" in entry.flags, rule, language)


def charset_of_catalog(data: bytes) -> str | None:
    """Return the charset that a catalog, or its beginning, states; None where it states none."""
    declared = _CHARSET.search(data)
    return declared[1].decode() if declared and declared[1] != b"CHARSET" else None


def _plural_obstacle(entry: _Entry, rule: PluralRule) -> str:
    """Return why gettext would refuse the catalog if a message with a plural were translated, or an empty text."""
    if not rule.is_known:
        return msg("messages with a plural that stay as they are, since the catalog states no rule for plural forms")
    kept = (text for key, text in entry.strings.items() if key.startswith("msgstr") and text)
    forms = (entry.strings["msgid_plural"], *(kept if "fuzzy" not in entry.flags else ()))
    if any(_outer_breaks(form) != _outer_breaks(entry.strings["msgid"]) for form in forms):
        return msg(
            "messages that stay as they are, since their singular and plural begin or end with different line breaks"
        )
    return ""


def _outer_breaks(text: str) -> tuple[bool, bool]:
    return text.startswith("\n"), text.endswith("\n")


def _plural_forms(entry: _Entry, rule: PluralRule, file: DecodedFile) -> Iterator[Segment]:
    for form in range(rule.count):
        key = f"msgstr[{form}]"
        if "fuzzy" in entry.flags or not entry.strings.get(key):
            source = entry.strings["msgid" if form == rule.singular else "msgid_plural"]
            yield _segment(entry, key, source, file)


def _segment(entry: _Entry, key: str, source: str, file: DecodedFile) -> Segment:
    content, mnemonic = message_content(source, entry.flags)
    newline = file.newline
    spans = entry.spans["msgid"]
    is_folded = "\n" in file.text[spans[0][0] : spans[-1][1]]

    def edits(translation: Content) -> Iterable[Edit]:
        text = message_text(translation, content, mnemonic, entry.flags)
        quoted = _quoted(text, newline, is_folded or "\n" in text.strip("\n"))
        if key in entry.spans:
            yield from (Edit(*span, '""' if number else quoted) for number, span in enumerate(entry.spans[key]))
        else:
            end = max(spans[-1][1] for spans in entry.spans.values())
            # forms that the entry lacks follow the others, in their order
            yield Edit(end, end, f"{newline}{key} {quoted}")
        if "fuzzy" not in entry.flags:
            first = entry.first or 0
            yield Edit(*entry.flags_at, "#, fuzzy,") if entry.flags_at else Edit(first, first, f"#, fuzzy{newline}")

    return Segment(content, edits, entry.line)


def _entries(lines: Iterable[str], name: str) -> Iterator[_Entry]:
    """Yield the messages in order; a string may continue after empty lines and comments, as gettext reads it."""
    entry, following, key = _Entry(), _Entry(), ""
    position = after = 0
    for number, line in enumerate(lines, start=1):
        before, after = after, after + len(line)
        text = line.strip()
        if not text or text.startswith("#"):
            following = _with_comment(following, text, before + line.find("#"))
            position = after if text else position
            continue
        match = _KEYWORD.fullmatch(line)
        if match:
            if "msgstr" in key and match["key"] in ("msgctxt", "msgid"):
                yield entry
                entry = _Entry()
            if not entry.strings:
                entry = following
            elif "msgstr" not in key:
                entry.flags, entry.flags_at = entry.flags + following.flags, entry.flags_at or following.flags_at
            key, following = match["key"], _Entry()
            entry.line = number if key == "msgid" else entry.line
            entry.first = before if entry.first is None else entry.first
            if key in entry.strings:
                raise DataError("{name}:{line}: a second {key} of one message", name, number, key)
            entry.strings[key] = ""
            if match["string"] is None:
                continue
        string = _STRING.fullmatch(match["string"] if match else line)
        if not key or string is None:
            raise DataError("{name}:{line}: not a line of a gettext catalog (.po)", name, number)
        start = before + (match.start("string") if match else string.start("string"))
        end = start + len(string["string"])
        spans = entry.spans.setdefault(key, [])
        if spans and spans[-1][1] > position:  # no comment between them
            start = spans.pop()[0]
        spans.append((start, end))
        entry.size += len(text)
        if entry.size > MAX_MESSAGE_LENGTH:
            raise DataError("{name}:{line}: a message of more than {max_message_length:,} characters").fill(
                name, number, MAX_MESSAGE_LENGTH
            )
        entry.strings[key] += _ESCAPE.sub(_unescaped, string["string"][1:-1])
    if key:
        yield entry


def _with_comment(entry: _Entry, text: str, start: int) -> _Entry:
    """Return the comments before a message with one line more, which may be empty."""
    if text.startswith("#~"):
        return _Entry()  # the comments before belong to an obsolete message
    if text.startswith("#,"):
        entry.flags_at = (start, start + 2)
        entry.flags += re.split(r"[\s,]+", text[2:].strip())
    elif text.startswith("#|") and entry.first is None:
        entry.first = start
    return entry


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0].isdigit() else _ESCAPES.get(code, code)


def _quoted(text: str, newline: str, is_folded: bool) -> str:
    """Return a string of a catalog, over several lines where its source is."""
    if not is_folded:
        return f'"{text.translate(_WRITTEN)}"'
    folded = [part for line in _LINE.findall(text) for part in _folded(line.translate(_WRITTEN))]
    return newline.join(f'"{part}"' for part in ("", *folded))


def _folded(text: str) -> Iterator[str]:
    """Yield parts of a line that fit into the usual width, cut after spaces."""
    part = ""
    for word in re.findall(r"\S*\s*", text):
        if part and len(part) + len(word) > _WIDTH:
            yield part
            part = ""
        part += word
    if part:
        yield part


# Compiled catalogs (`.mo`; GNU gettext manual, "The Format of GNU MO Files").

_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
_MAGIC = 0x950412DE


@dataclass
class CompiledCatalog:
    """The messages of a catalog, and the index among the segments of each of their forms."""

    data: bytes
    order: str
    charset: str
    messages: dict[bytes, bytes]
    segments: Sequence[Segment] = ()
    forms: list[tuple[bytes, int, str, Content]] = field(default_factory=list)
    """For each segment its message, the number of its form, the mark of its shortcut key and its source."""
    remarks: Counter[str] = field(default_factory=Counter)
    markup: bool = True

    def write(self, translations: Sequence[Content]) -> bytes:
        """Return the catalog with one translation for each segment, without a table of hashes."""
        if not translations:
            return self.data
        messages = {key: value.split(b"\0") for key, value in self.messages.items()}
        for content, (key, form, mnemonic, source) in zip(translations, self.forms, strict=True):
            texts = messages[key]
            texts += [b""] * (form + 1 - len(texts))
            texts[form] = message_text(content, source, mnemonic).encode(self.charset, "replace")
        return write_mo({key: b"\0".join(texts) for key, texts in messages.items()}, self.order)


def read_mo(data: bytes, name: str, options: Options) -> CompiledCatalog:
    """Read messages that are not translated. Raises `DataError` for a damaged catalog."""
    try:
        order, messages = parse_mo(data)
        header = messages.get(b"", b"")
        charset = require_charset(charset_of_catalog(header) or "utf-8", name)
        catalog = CompiledCatalog(data, order, charset, messages)
        rule = PluralRule.of(header.decode("latin-1"))
        segments: list[Segment] = []
        for key, value in messages.items():
            if key:
                _read_message(catalog, key, value.decode(charset).split("\0"), rule, segments)
    except (ValueError, LookupError, struct.error) as error:
        raise DataError("{path}: damaged, or not a compiled catalog ({error})", name, error) from None
    catalog.segments = segments
    return catalog


def _read_message(
    catalog: CompiledCatalog, key: bytes, targets: list[str], rule: PluralRule, segments: list[Segment]
) -> None:
    sources = key.decode(catalog.charset).rpartition("\4")[2].split("\0")
    for form in range(rule.count if len(sources) > 1 else 1):
        source = sources[0 if len(sources) == 1 or form == rule.singular else 1]
        if form < len(targets) and targets[form] not in ("", source):
            catalog.remarks[msg("messages that are translated already")] += 1
        elif has_words(source):
            content, mnemonic = message_content(source)
            segments.append(Segment(content, lambda translation: (), len(segments) + 1))
            catalog.forms.append((key, form, mnemonic, content))


def parse_mo(data: bytes) -> tuple[str, dict[bytes, bytes]]:
    """Return the byte order and the messages. Raises `ValueError` or `struct.error` where the catalog is damaged."""
    order = _ORDERS.get(data[:4])
    if order is None:
        raise ValueError("it does not begin as one")
    version, count, sources_at, targets_at = struct.unpack_from(f"{order}4I", data, 4)
    if version >> 16 > 1:
        raise ValueError(f"unknown version {version >> 16}")
    sources, targets = (_strings(data, order, start, count) for start in (sources_at, targets_at))
    return order, dict(zip(sources, targets, strict=True))


def _strings(data: bytes, order: str, start: int, count: int) -> list[bytes]:
    if start + 8 * count > len(data):
        raise ValueError("cut off")
    spans = list(struct.iter_unpack(f"{order}2I", data[start : start + 8 * count]))
    if any(begin + length > len(data) for length, begin in spans):
        raise ValueError("cut off")
    if sum(length for length, _ in spans) > len(data):
        raise ValueError("strings overlap")
    return [data[begin : begin + length] for length, begin in spans]


def write_mo(messages: dict[bytes, bytes], order: str = "<") -> bytes:
    """Return a compiled catalog of these messages, sorted as programs expect them."""
    keys = sorted(messages)
    head = 28
    position = head + 16 * len(keys)
    tables, texts = [], []
    for string in (*keys, *(messages[key] for key in keys)):
        tables.append(struct.pack(f"{order}2I", len(string), position))
        texts.append(string + b"\0")
        position += len(string) + 1
    numbers = (_MAGIC, 0, len(keys), head, head + 8 * len(keys), 0, head + 16 * len(keys))
    return struct.pack(f"{order}7I", *numbers) + b"".join([*tables, *texts])
