"""The version of dikkat that writes a run."""

from __future__ import annotations

from dikkat_runtime.messages import msg


def installed_version() -> str:
    """Return the version of the installed distribution, as noted in config.json."""
    # its import takes as long as that of all else that reads a run
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dikkat")
    except PackageNotFoundError:
        return msg("unknown (run from source)")
