"""Check the fields of a request on access; `null` is the same as not given."""

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.server.request_error import Kind, RequestError
from dikkat_runtime.server.settings import Limits
from dikkat_runtime.text.glossary import Glossary

SizedT = TypeVar("SizedT", bound=Sized)
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Fields:
    """The fields of a request. Every method raises `RequestError` that names the field."""

    def __init__(self, values: Mapping[str, Any], limits: Limits, kind: Kind = "invalid") -> None:
        """`kind` is that of the problem of a wrong value."""
        self._values, self._limits, self._kind = values, limits, kind

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return the value of a field unchecked."""
        return self._values.get(name)

    def section(self, name: str) -> "Fields":
        """Return the fields inside a field; none where it is not given."""
        value = self._values[name] if name in self else {}
        if not isinstance(value, Mapping):
            raise self.wrong(name, "must be an object")
        return Fields(value, self._limits, self._kind)

    def optional_text(self, name: str) -> str | None:
        """Return one text, or None where it is not given."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            raise self.wrong(name, "must be a text")
        return whole_characters(value)

    def text(self, name: str) -> str:
        """Return one text that must be given."""
        value = self.optional_text(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def texts(self, name: str) -> list[str]:
        """Return one text or several, within the limits."""
        value = self._values.get(name)
        if value is None:
            raise self.wrong(name, "is missing")
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self.wrong(name, "must be a text or a list of texts")
        if not value:
            raise self.wrong(name, "is an empty list")
        return self.within_limits(name, [whole_characters(text) for text in value])

    def within_limits(self, name: str, texts: list[SizedT]) -> list[SizedT]:
        """Return the texts or rows of ids themselves, when they are neither too many nor too long."""
        limits = self._limits
        if len(texts) > limits.texts:
            raise RequestError("too_large", f"{name} has {len(texts):,} texts; at most {limits.texts:,}", param=name)
        if max(map(len, texts), default=0) > limits.text_characters:
            raise RequestError(
                "too_large", f"a text of {name} has over {limits.text_characters:,} characters", param=name
            )
        if sum(map(len, texts)) > limits.characters:
            raise RequestError("too_large", f"{name} has over {limits.characters:,} characters", param=name)
        return texts

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self._values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(name, f"must be a whole number from {low} to {high}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.wrong(name, "must be a number") from None
        if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
            raise self.wrong(name, f"must be a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool):
            return value
        word = str(value).lower() if isinstance(value, str | int) else ""
        if word not in _YES and word not in _NO:
            raise self.wrong(name, "must be true or false")
        return word in _YES

    def choice(self, name: str, default: str, among: Sequence[str]) -> str:
        value = self.optional_text(name)
        if value is None or value == "":
            return default
        if value not in among:
            raise self.wrong(name, f"must be one of {', '.join(among)}")
        return value

    def wrong(self, name: str, what: str) -> RequestError:
        return RequestError(self._kind, f"{name} {what}", param=name)


def whole_characters(text: str) -> str:
    """Return the text with half surrogate pairs replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Markup = Literal["text", "html", "xml"]


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options of a translation that a client chooses."""

    markup: Markup = "text"
    structure: Structure = field(default_factory=Structure)
    """The structure of the elements, where the texts have tags."""
    sentences: bool = True
    """True if a line is cut into sentences."""
    lines: bool = True
    """True if a line break ends a sentence."""
    alternatives: int = 0
    glossary: Glossary | None = None
    memory: str | None = None
    """The name of a translation memory."""
    judged: bool = False
    """True if the confidence in each sentence is estimated, where a run has it."""
