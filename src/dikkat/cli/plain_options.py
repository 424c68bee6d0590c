"""Command lines without mistakes, read without typer, whose import takes longer than the translation of a sentence.

What is not plain is left to typer, which knows how to tell of mistakes, to help and to complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

_Options = TypeVar("_Options")
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)


class _NotPlainError(Exception):
    """It takes typer to read this."""


def read_plain(
    kind: type[_Options], arguments: Sequence[str], positional: Sequence[str], limits: Mapping[str, tuple[int, int]]
) -> _Options | None:
    """The options of a command as an instance of the dataclass `kind`; None where it takes typer to read them.

    Fields named in `positional` are read from arguments without a name, all others are options of their names; `limits`
    are the smallest and the largest value of some of them.
    """
    types = get_type_hints(kind)
    options = {name: types[name] for name in types.keys() - set(positional)}
    free, values, words = list(positional), dict[str, Any](), iter(arguments)
    try:
        for word in words:
            is_free = not word.startswith("-")
            if is_free and not free:
                return None
            name, text = (free.pop(0), word) if is_free else _option(word, words, options)
            if name in values:
                return None
            values[name] = _converted(text, types[name])
            if name in limits and not limits[name][0] <= values[name] <= limits[name][1]:
                return None
    except _NotPlainError:
        return None
    # without a default, an argument must be there
    required = [name for name in positional if not hasattr(kind, name)]
    return kind(**values) if all(name in values for name in required) else None


def _option(word: str, words: Iterator[str], types: Mapping[str, Any]) -> tuple[str, str]:
    """The field that an option sets, and its value: behind "=", or the word behind it; a flag is its own."""
    option, has_value, text = word.partition("=")
    name = option.removeprefix("--").replace("-", "_")
    if not option.startswith("--") or "_" in option or name not in types or (has_value and types[name] is bool):
        raise _NotPlainError
    if types[name] is bool:
        return name, option
    text = text if has_value else next(words, "")
    if text.startswith("-"):
        raise _NotPlainError
    return name, text


def _converted(text: str, annotation: Any) -> Any:
    if annotation is bool:
        return True
    if get_origin(annotation) is Literal:
        return _matched(text in get_args(annotation), text)
    kinds = {*(get_args(annotation) or [annotation])} - {NoneType}
    if kinds == {int}:
        return int(_matched(_WHOLE.fullmatch(text), text))
    if kinds == {float}:
        return float(_matched(_NUMBER.fullmatch(text), text))
    return Path(_matched(text, text)) if kinds == {Path} else _matched(text, text)


def _matched(matches: object, text: str) -> str:
    if not matches:
        raise _NotPlainError
    return text
