"""Read files of settings in TOML."""

import errno
import os
import tomllib
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, MissingInputError, msg, unreadable
from dikkat_runtime.files import read_regular

MAX_SETTINGS_SIZE = 1 << 20
"""Most bytes of such a file."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a file, checked only for syntax.

    Raises `MissingInputError`, or `DataError` for what is not a file of TOML.
    """
    if path.is_dir():
        raise MissingInputError("{path}: cannot be read: {reason}", path, os.strerror(errno.EISDIR))
    try:
        return tomllib.loads(read_regular(path, MAX_SETTINGS_SIZE).decode("utf-8"))
    except FileNotFoundError:
        raise MissingInputError("{path}: there is no such configuration file", path) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        is_of_form = isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError)
        reason = error if is_of_form else msg("a number has thousands of digits, or brackets are nested thousands deep")
        raise DataError("{path}: not valid TOML: {reason}", path, reason) from None
