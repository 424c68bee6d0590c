"""Messages to people: a template, and the values that fill it in by name; a catalog translates templates alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_FIELD = re.compile(r"\{\{|\{(\w+)")


class Message(str):
    """Hold a message: as a string it is English; `localized` fills in the template of another language."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, values: dict[str, Any]) -> Message:
        """Fill in a template; without values, its braces stand for themselves."""
        message = super().__new__(cls, template.format_map(values) if values else template)
        message.template, message.values = template, values
        return message

    def fill(self, *values: object, **named: object) -> Message:
        """Return the message with values, in the order in which its template names them first, or by name.

        A name that the template does not have is passed over.
        """
        names = dict.fromkeys(field[1] for field in _FIELD.finditer(self.template) if field[1])
        if named:
            values = tuple(named[name] for name in names)
        return Message(self.template, dict(zip(names, map(_kept, values), strict=True)))

    def replaced(self, old: str, new: str) -> Message:
        """Return the message with a text replaced in its values."""
        texts = {name: value for name, value in self.values.items() if isinstance(value, str)}
        changed = {
            name: text.replaced(old, new) if isinstance(text, Message) else text.replace(old, new)
            for name, text in texts.items()
        }
        return Message(self.template, {**self.values, **changed})

    def __str__(self) -> str:
        """Return the message itself, so that `str(error)` and `print` keep what it is made of."""
        return self

    def __reduce__(self) -> tuple[type[Message], tuple[str, dict[str, Any]]]:
        """Tell pickle what the message is made of."""
        return type(self), (self.template, self.values)

    def __add__(self, other: str) -> Message:
        """Return the message with a text after it."""
        return joined("", (self, other))

    def __radd__(self, other: str) -> Message:
        """Return the message with a text before it."""
        return joined("", (other, self))


def msg(template: str) -> Message:
    """Return the message of an English template, which is an entry of the catalogs; `fill` gives it values."""
    return template if isinstance(template, Message) else Message(template, {})


def joined(separator: str, messages: Iterable[object]) -> Message:
    """Return messages with a text between them as one message."""
    values = {f"part{index}": _kept(message) for index, message in enumerate(messages)}
    between = separator.replace("{", "{{").replace("}", "}}")
    return Message(between.join(f"{{{name}}}" for name in values), values)


def plural(count: int, noun: str) -> Message:
    """Return a count and its noun: 1 pair, 1,000 pairs."""
    return msg(f"{{count:,}} {noun}" if count == 1 else f"{{count:,}} {noun}s").fill(count)


def _kept(value: object) -> object:
    """Return a value as a message keeps it: text and numbers as they are, of anything else its text."""
    return value if isinstance(value, str | int | float) or hasattr(value, "__float__") else str(value)


def to_json(value: Any) -> Any:
    """Return what JSON can hold of a message: its template and its values; anything else as it is."""
    if not isinstance(value, Message):
        return value
    return {"template": value.template, "values": {name: to_json(part) for name, part in value.values.items()}}


def from_json(read: dict[str, Any]) -> Any:
    """Return the message that `to_json` wrote, any other object of JSON as it is; a hook of `json.loads`."""
    return Message(**read) if read.keys() == {"template", "values"} else read
