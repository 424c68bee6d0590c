"""Read the texts of programs in YAML, as Rails and its kin keep them; comments, quotation and anchors stay.

PyYAML finds the values; they are written into the file in their own quotation. Source: YAML 1.1; Rails I18n.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, MappingStartEvent, NodeEvent, ScalarEvent

from dikkat_runtime.documents.app_strings import AppStrings, Copy
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.messages import plural_categories
from dikkat_runtime.documents.segments import Edit, Options, is_language
from dikkat_runtime.errors import DataError

MAX_DEPTH = 64
"""Lists and mappings inside each other."""
_PROPERTIES = re.compile(r"(?:[&!]\S*+\s++)*+")
_STRING = "tag:yaml.org,2002:str"
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_]\w+)?")
_PAIR = re.compile(r"\\u(d[89ab]\w\w)\\u(d[c-f]\w\w)")
_CATEGORIES = frozenset(("zero", "one", "two", "few", "many", "other"))
_RESOLVER = yaml.SafeLoader("")


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is open."""

    is_mapping: bool = False
    in_flow: bool = False
    in_key: bool = False
    """True if it is a key of a mapping, or stands in one."""
    key: NodeEvent | None = None
    """The key that waits for its value."""
    keys: list[str] = field(default_factory=list)
    other: tuple[int, str, list[Copy]] | None = None
    """Of the plural form `other`: where it ends, the margin of its key, and what its copies are added to."""


def read_yaml(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the values of a file of YAML. Raises `DataError` with the line for what is none."""
    reader = _Reader(AppStrings(DecodedFile.decode(data, name), options))
    try:
        reader.read()
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "recursion"
        raise DataError("{where}: not valid YAML ({reason})", where, reason) from None
    return reader.strings.document()


class _Reader:
    def __init__(self, strings: AppStrings) -> None:
        self.strings, self._text = strings, strings.file.text
        self._frames = [_Frame()]
        self._roots: list[ScalarEvent] = []

    def read(self) -> None:
        """Read all values, and the language that stands over all of them."""
        for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
            frame = self._frames[-1]
            if isinstance(event, CollectionEndEvent):
                self._add_plurals(self._frames.pop())
            elif isinstance(event, CollectionStartEvent):
                is_flow = bool(event.flow_style) or frame.in_flow
                in_key = frame.in_key or (frame.is_mapping and frame.key is None)
                if in_key and not frame.in_key:
                    frame.key = event
                elif frame.is_mapping:
                    frame.key = None
                self._frames.append(_Frame(isinstance(event, MappingStartEvent), is_flow, in_key))
                if len(self._frames) > MAX_DEPTH:
                    where = (self.strings.file.name, event.start_mark.line + 1, MAX_DEPTH)
                    raise DataError("{name}:{line}: nested deeper than {limit}", *where)
            elif isinstance(event, ScalarEvent) and frame.is_mapping and frame.key is None:
                frame.key = event
                frame.keys.append(event.value)
                self._roots += [event] if len(self._frames) == 2 else []
            elif isinstance(event, NodeEvent):
                if isinstance(event, ScalarEvent) and not frame.in_key:
                    self._add(event, frame)
                # an alias may be a key
                frame.key = event if frame.is_mapping and frame.key is None else None
        self._switch_language()

    def _add(self, event: ScalarEvent, frame: _Frame) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if event.anchor is not None or event.tag is not None:
            properties = _PROPERTIES.match(self._text, start)
            start = properties.end() if properties else start
        is_text = event.style or _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False)) == _STRING
        if event.tag not in (None, "!", _STRING) or not is_text or start >= end:
            return
        copies: list[Copy] = []
        write = _writer(self._text[start:end], event, frame)
        if event.style in ("|", ">"):
            end = start + len(self._text[start:end].rstrip())
        elif isinstance(frame.key, ScalarEvent) and frame.key.value == "other" and not frame.in_flow:
            column = frame.key.start_mark.column
            frame.other = (end, self._text[frame.key.start_mark.index - column : frame.key.start_mark.index], copies)
        self.strings.add(start, end, event.value, write, is_prose=False, copies=copies)

    def _add_plurals(self, frame: _Frame) -> None:
        """Add the plural forms that the language of the translation needs to a mapping of such."""
        language = self.strings.options.target_language
        if frame.other is None or not language or "one" not in frame.keys or not _CATEGORIES.issuperset(frame.keys):
            return
        end, margin, copies = frame.other
        missing = [category for category in plural_categories(language) if category not in frame.keys]
        copies += [(end, f"\n{margin}{category}: ", "") for category in missing if not margin.strip()]

    def _switch_language(self) -> None:
        options = self.strings.options
        if len(self._roots) == 1 and options.source_language and options.target_language:
            [root] = self._roots
            if _LANGUAGE.fullmatch(root.value) and is_language(root.value, options.source_language):
                start, end = root.start_mark.index, root.end_mark.index
                code = options.target_language.replace("_", "-")
                self.strings.also.append(Edit(start, end, self._text[start:end].replace(root.value, code)))


def _writer(raw: str, event: ScalarEvent, frame: _Frame) -> Callable[[str], str]:
    """Return the function that writes a text in the quotation that it has had, or in double quotation marks."""
    is_ascii = raw.isascii() and "\\" in raw and ("\\u" in raw or "\\x" in raw)

    def write(text: str) -> str:
        written = ""
        if event.style is None and "\n" not in text:
            written = text
        elif event.style == "'" and "\n" not in text:
            written = "'" + text.replace("'", "''") + "'"
        elif event.style in ("|", ">"):
            written = _block(raw, event, text)
        if written and _reads_as(written, text, event, frame):
            return written
        return _PAIR.sub(_astral, json.dumps(text, ensure_ascii=is_ascii))

    return write


def _astral(pair: re.Match[str]) -> str:
    """Return a character outside of the first plane as YAML escapes it: by its number, not as two halves."""
    return f"\\U{0x10000 + (int(pair[1], 16) - 0xD800) * 0x400 + int(pair[2], 16) - 0xDC00:08x}"


def _block(raw: str, event: ScalarEvent, text: str) -> str:
    """Return a text as a block of lines under the head of the old one; a folded one has a line for a paragraph."""
    head, _, body = raw.rstrip().partition("\n")
    first, value = body.lstrip("\n"), event.value.lstrip("\n")
    depth = len(first) - len(first.lstrip(" ")) - (len(value) - len(value.lstrip(" ")))
    lines = text.rstrip("\n").split("\n")
    between = "\n" if event.style == "|" else "\n\n"
    return head + "\n" + between.join(" " * depth + line if line else line for line in lines)


def _reads_as(written: str, text: str, event: ScalarEvent, frame: _Frame) -> bool:
    """Return whether what is written is read as the text, in the place where it will stand."""
    if event.style is None and frame.in_flow and set(written) & set(",[]{}"):
        return False
    try:
        value = yaml.safe_load(f"- {written}\n" if event.style in (None, "'") else f"a: {written}\n")
    except yaml.YAMLError:
        return False
    read = value[0] if isinstance(value, list) else value["a"] if isinstance(value, dict) else None
    return isinstance(read, str) and read.rstrip("\n") == text.rstrip("\n")
