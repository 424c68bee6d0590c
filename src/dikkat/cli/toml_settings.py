"""Read the settings of a `--config F.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, MissingInputError, UsageError


def read_toml(path: Path) -> dict[str, dict[str, Any]]:
    """Read settings from a TOML file, checked only for syntax.

    Raises `MissingInputError`, `DataError` or `UsageError`.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingInputError(f"{path}: there is no such configuration file") from None
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        is_of_form = isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError)
        reason = error if is_of_form else "a number has thousands of digits, or brackets are nested thousandfold"
        raise DataError(f"{path}: not valid TOML: {reason}") from None
    for name, values in settings.items():
        if not isinstance(values, dict):
            raise UsageError(f'{path}: "{name}" stands outside a section; write it under a heading such as [training]')
    return settings
