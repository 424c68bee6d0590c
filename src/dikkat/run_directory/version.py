"""The version of dikkat that writes a run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The version of the installed distribution, as config.json notes it."""
    try:
        return version("dikkat")
    except PackageNotFoundError:
        return "unknown (run from source)"
