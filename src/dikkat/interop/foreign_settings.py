"""Read the config.json of a foreign checkpoint strictly, so that no setting that changes the result is ignored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_json, shown


@dataclass(frozen=True, slots=True)
class ForeignSettings:
    """Hold the settings in the file `path`."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> ForeignSettings:
        """Read the settings from `path`. Raises `MissingInputError` or `DataError` naming the file."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError("{path}: must be one object of settings").fill(path)
        return cls(path, values)

    def number(self, name: str, default: int | float | None = None) -> Any:
        """Return a number that is there, or `default`. Raises `DataError` without either, and for another type."""
        value = self.values.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError("{path}: {name} must be a number, not {value}").fill(self.path, name, shown(repr(value)))
        return value

    def choice(self, name: str, default: str, known: Mapping[str, str]) -> str:
        """Return our name for their choice. Raises `DataError` for one that has none."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise DataError("{path}: {name} must be one of {known}, not {value}").fill(
                self.path, name, ", ".join(known), shown(repr(value))
            )
        return known[value]

    def require(self, name: str, only: object) -> None:
        """Raise `DataError` if the setting is there and not the `only` value that our models compute."""
        if (value := self.values.get(name, only)) != only:
            value_shown = shown(repr(value))
            raise DataError("{where}: {name} = {value} is not something that dikkat computes; only {only} is").fill(
                self.path, name, value_shown, repr(only)
            )

    def family(self, known: Collection[str]) -> str:
        """Return the model type. Raises `DataError` for one that is not `known`."""
        model_type = self.values.get("model_type")
        if not isinstance(model_type, str) or model_type not in known:
            raise DataError("{path}: model_type must be one of {known}, not {model_type}").fill(
                self.path, ", ".join(known), shown(repr(model_type))
            )
        return model_type
