"""The version of dikkat that writes a run, and the versions of the format that it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dikkat_runtime.engine.run_directory import FORMAT_VERSION
from dikkat_runtime.errors import DataError


def installed_version() -> str:
    """Return the version of the installed distribution, as noted in config.json."""
    # its import takes as long as that of all else that reads a run
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dikkat")
    except PackageNotFoundError:
        return "unknown (run from source)"


def checked_versions(loaded: object, where: Path) -> dict[str, Any]:
    """Return the settings of a config.json without its versions.

    Raises `DataError` naming the file `where` for one that is damaged, or of a newer format.
    """
    number = loaded.get("format_version") if isinstance(loaded, dict) else None
    if not isinstance(loaded, dict) or type(number) is not int or number < 1:
        raise DataError(f"{where}: damaged, or not written by dikkat: no format_version; restore the file")
    if number > FORMAT_VERSION:
        raise DataError(
            f"{where}: format version {number}, but this dikkat knows only up to {FORMAT_VERSION};"
            f" written by dikkat {loaded.get('dikkat_version', '?')}: upgrade to it"
        )
    return {key: value for key, value in loaded.items() if key not in ("format_version", "dikkat_version")}
