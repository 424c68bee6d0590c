"""Read the texts of programs in JSON: of i18next and its kin, of Flutter (`.arb`), of browser extensions and of Xcode.

Sources: RFC 8259; i18next JSON v4; Application Resource Bundle; Chrome's `_locales`; Xcode's string catalogs.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dikkat_runtime.documents.app_strings import AppStrings
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.messages import plural_categories
from dikkat_runtime.documents.segments import Edit, Options, is_language
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.foreign_json import shown

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\s,:{}\[\]"]++|[{}\[\],:]')
MAX_DEPTH = 64
"""Lists and objects inside each other."""
_PLURAL = re.compile(r"(.*)_other(?:_|$)")


@dataclass(slots=True)
class _Member:
    """A text with the keys that lead to it."""

    path: tuple[str, ...]
    names: set[str]
    """The keys of its object, once all of that is read."""
    begin: int
    """Where its key begins, or the text itself in a list."""
    start: int
    end: int
    before: int
    """Where the member before it ends, or its object begins."""


@dataclass(slots=True)
class _Frame:
    path: tuple[str, ...]
    is_object: bool
    before: int
    key: str = ""
    key_at: int = -1
    """Where the key begins that waits for its value; -1 where none does."""
    names: set[str] = field(default_factory=set)


def read_json(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the texts of a file of JSON. Raises `DataError` for what is none."""
    file = DecodedFile.decode(data, name)
    try:
        root = json.loads(file.text)
    except (ValueError, RecursionError) as error:
        raise DataError("{name}: not valid JSON ({reason})", name, shown(str(error))) from None
    strings = AppStrings(file, options)
    if name.lower().endswith(".xcstrings"):
        return _catalog(strings, root)
    members = list(_members(file, {}))
    is_arb = name.lower().endswith(".arb") or (isinstance(root, dict) and "@@locale" in root)
    values = list(root.values()) if isinstance(root, dict) else []
    messages = bool(values) and all(isinstance(value, dict) and type(value.get("message")) is str for value in values)
    for member in members:
        text = json.loads(file.text[member.start : member.end])
        if is_arb and member.path == ("@@locale",) and is_language(text, options.source_language):
            code = json.dumps(options.target_language or text)
            strings.also.append(Edit(member.start, member.end, code))
        elif not (is_arb and member.path[0].startswith("@")) and not (messages and member.path[1:] != ("message",)):
            strings.add(
                member.start, member.end, text, _writer(file.text, member), is_prose=is_arb or messages,
                copies=_plurals(file.text, member, options.target_language),
            )  # fmt: skip
    return strings.document()


def _writer(text: str, member: _Member) -> Any:
    is_ascii, raw = text.isascii() and "\\u" in text, text[member.start : member.end]
    slash = "\\/" if "\\/" in raw else "/"
    return lambda translation: json.dumps(translation, ensure_ascii=is_ascii).replace("/", slash)


def _plurals(text: str, member: _Member, language: str) -> list[tuple[int, str, str]]:
    """Return the plural forms of i18next that the language of the translation needs and an object lacks."""
    key, names = member.path[-1], member.names
    match = _PLURAL.fullmatch(key)
    if match is None or not language or f"{match[1]}_one" not in names:
        return []
    missing = [category for category in plural_categories(language) if f"{match[1]}_{category}" not in names]
    between = text[member.before : member.begin].lstrip(",")
    colon = text[member.begin + len(json.dumps(key, ensure_ascii=False)) : member.start]
    return [
        (member.end, f",{between}{json.dumps(f'{match[1]}_{name}', ensure_ascii=False)}{colon}", "") for name in missing
    ]


def _members(file: DecodedFile, begins: dict[tuple[str, ...], int]) -> Iterator[_Member]:
    """Yield the texts of valid JSON, and note for each object where its first key may stand."""
    frames = [_Frame((), False, 0)]
    for token in _TOKEN.finditer(file.text):
        frame, sign = frames[-1], token[0]
        if sign in "]}":
            frames.pop()
            frames[-1].before, frames[-1].key_at = token.end(), -1
        elif sign in "[{":
            path = (*frame.path, frame.key) if len(frames) > 1 else ()
            begins[path] = token.end()
            frames.append(_Frame(path, sign == "{", token.end()))
            if len(frames) > MAX_DEPTH:
                raise DataError(
                    "{name}:{line}: nested deeper than {limit}", file.name, file.line(token.start()), MAX_DEPTH
                )
        elif sign[0] == '"' and frame.is_object and frame.key_at < 0:
            frame.key, frame.key_at = json.loads(sign), token.start()
            frame.names.add(frame.key)
        elif sign not in ",:":
            if sign[0] == '"':
                begin = frame.key_at if frame.is_object else token.start()
                yield _Member((*frame.path, frame.key), frame.names, begin, token.start(), token.end(), frame.before)
            frame.before, frame.key_at = token.end(), -1


LEFT = msg("texts of a string catalog with plurals or variations, left as they are")
DONE = msg("texts of a string catalog that are translated already")


def _catalog(strings: AppStrings, root: Any) -> TextDocument:
    """Read a string catalog of Xcode: each key gets a text of the target language, which is to be reviewed."""
    file, code = strings.file, (strings.options.target_language or "").replace("_", "-")
    if not isinstance(root, dict) or not isinstance(root.get("strings"), dict) or not code:
        raise DataError("{name}: not a string catalog, or the model does not name its target language", file.name)
    begins: dict[tuple[str, ...], int] = {}
    for _ in _members(file, begins):
        pass
    for key, entry in root["strings"].items():
        texts = entry.get("localizations", {}) if isinstance(entry, dict) else None
        if not isinstance(texts, dict) or entry.get("shouldTranslate") is False:
            continue
        own = texts.get(root.get("sourceLanguage", "en"), {"stringUnit": {"value": key}})
        text = own.get("stringUnit", {}).get("value") if isinstance(own, dict) else None
        if code in texts or not isinstance(text, str):
            strings.remarks[DONE if code in texts else LEFT] += 1
            continue
        path = ("strings", key, "localizations") if texts else ("strings", key)
        comma = "," if (texts or entry) else ""

        def write(translation: str, is_nested: bool = not texts, comma: str = comma) -> str:
            value: dict[str, Any] = {code: {"stringUnit": {"state": "needs_review", "value": translation}}}
            written = json.dumps({"localizations": value} if is_nested else value, ensure_ascii=False, indent=2)
            lines = re.sub(r'^( *"\w[^"]*"):', r"\1 :", written, flags=re.MULTILINE).split("\n")[1:-1]
            margin = " " * (4 if is_nested else 6)
            return "".join(f"\n{margin}{line}" for line in lines) + comma

        strings.add(begins[path], begins[path], text, write, is_new=True)
    return strings.document()
