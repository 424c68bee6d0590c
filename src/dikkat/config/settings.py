"""Settings as they are given, in layers, and what is wrong with them in one line."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError

from dikkat.config.model import Section
from dikkat.config.run import RunConfig
from dikkat.presets import PRESETS
from dikkat_runtime.errors import Message, UsageError, msg, nearest
from dikkat_runtime.text.toml_file import read_toml as read_values


def preset(name: str) -> dict[str, dict[str, Any]]:
    """Return the overrides of a preset. Raises `UsageError` naming the nearest preset."""
    if name not in PRESETS:
        known = ", ".join(PRESETS)
        raise UsageError('no preset is called "{name}"{nearest} known: {known}', name, nearest(name, PRESETS), known)
    return PRESETS[name]


def merge(*layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge settings section by section; the later one wins."""
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values} if isinstance(values, dict) else values
    return merged


def build_config(settings: dict[str, Any], where: str = "configuration") -> RunConfig:
    """Check `settings` and fill in the defaults. Raises `UsageError` with `where`, the key and the nearest name."""
    try:
        return RunConfig.model_validate(settings)
    except ValidationError as error:
        raise UsageError("{name}: {fact}", where, first_complaint(error)) from None


def first_complaint(error: ValidationError) -> str:
    """Return what is wrong with settings, in one line: the key, what it must be and what it was."""
    detail = error.errors()[0]
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    if detail["type"] == "extra_forbidden":
        known = _known_keys(path[:-1])
        return msg(
            'unknown key "{key}"{nearest}', key, nearest(path[-1], known) or msg("; known: {known}", ", ".join(known))
        )
    actual = (
        "" if isinstance(detail.get("input"), dict | Section) else msg(", not {value}", _shown(detail.get("input")))
    )
    message = complaint(detail)
    return msg("{key}: {complaint}{actual}", key, message, actual) if key else message


def complaint(detail: ErrorDetails) -> str:
    """Return what pydantic says of a value, beginning with a small letter where it is said of a key."""
    facts: dict[str, Any] = detail.get("ctx", {})
    if "error" in facts:
        return str(facts["error"])
    kind: Any = detail["type"]
    template = PydanticKnownError(kind, facts or None).message_template
    facts = {name: int(fact) if isinstance(fact, float) and fact.is_integer() else fact for name, fact in facts.items()}
    facts |= {"expected_plural": "" if 1 in facts.values() else "s"} if "{expected_plural}" in template else {}
    return Message(template[0].lower() + template[1:], facts)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return msg("a number of thousands of digits")
    return text if len(text) <= 60 else f"{text[:60]}…"


def _known_keys(path: list[str]) -> list[str]:
    section: type[BaseModel] = RunConfig
    for part in path:
        annotation = section.model_fields[part].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            section = annotation
    return list(section.model_fields)


def read_toml(path: Path) -> dict[str, dict[str, Any]]:
    """Read settings from a TOML file, checked only for syntax.

    Raises `MissingInputError`, `DataError` or `UsageError`.
    """
    settings = read_values(path)
    for name, values in settings.items():
        if not isinstance(values, dict):
            raise UsageError(
                '{path}: "{name}" stands outside a section; write it under a heading such as [training]', path, name
            )
    return settings
