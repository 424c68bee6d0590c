"""Read the settings of a `--config F.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.toml_file import read_toml as read_values


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
