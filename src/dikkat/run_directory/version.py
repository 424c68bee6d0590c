"""The version of dikkat that writes a run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version of the installed distribution, as noted in config.json."""
    try:
        return version("dikkat")
    except PackageNotFoundError:
        return "unknown (run from source)"
