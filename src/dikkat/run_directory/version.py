"""The version of dikkat that writes a run."""

from __future__ import annotations


def installed_version() -> str:
    """The version of the installed distribution, as config.json notes it."""
    # its import takes as long as that of all else that reads a run
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dikkat")
    except PackageNotFoundError:
        return "unknown (run from source)"
