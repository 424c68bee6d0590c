"""Read compiled gettext catalogs (`.mo`): messages without a translation, or with a copy of the source, are translated.

Source: GNU gettext manual, "The Format of GNU MO Files".
"""

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.messages import PluralRule, message_content, message_text
from dikkat_runtime.documents.segments import Content, Options, Segment
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.text_files import require_charset

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
        header = messages.get(b"", b"").decode("latin-1")
        charset = require_charset(charset_of_header(header), name)
        catalog = CompiledCatalog(data, order, charset, messages)
        rule = PluralRule.of(header)
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
        source = sources[0 if len(sources) == 1 or rule.takes_singular(form) else 1]
        if form < len(targets) and targets[form] not in ("", source):
            catalog.remarks[msg("messages that are translated already")] += 1
        elif has_words(source):
            content, mnemonic = message_content(source)
            segments.append(Segment(content, lambda translation: (), len(segments) + 1))
            catalog.forms.append((key, form, mnemonic, content))


def charset_of_header(header: str) -> str:
    """Return the charset that the header of a catalog states; UTF-8 where it states none."""
    match = re.search(r"charset=([\w.:-]+)", header)
    return match[1] if match and match[1] != "CHARSET" else "utf-8"


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
    sources, targets = keys, [messages[key] for key in keys]
    head = 28
    position = head + 16 * len(keys)
    tables, texts = [], []
    for strings in (sources, targets):
        for string in strings:
            tables.append(struct.pack(f"{order}2I", len(string), position))
            texts.append(string + b"\0")
            position += len(string) + 1
    numbers = (_MAGIC, 0, len(keys), head, head + 8 * len(keys), 0, head + 16 * len(keys))
    return struct.pack(f"{order}7I", *numbers) + b"".join([*tables, *texts])
