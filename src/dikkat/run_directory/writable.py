"""Refuse to write over what is not of a run, or over a run that is finished."""

from __future__ import annotations

from pathlib import Path

from dikkat.run_directory.checkpoints import remove_leftovers
from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, msg
from dikkat_runtime.files import TEMPORARY_PREFIX, read_regular, write_errors
from dikkat_runtime.run.parts import FOLDERS, LIMITS, MANIFEST, TARGET_TOKENIZER, check_file
from dikkat_runtime.strict_json import parse_json

# The version of dikkat that writes a run.


def installed_version() -> str:
    """Return the version of the installed distribution, as noted in config.json."""
    # its import takes as long as that of all else that reads a run
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dikkat")
    except PackageNotFoundError:
        return msg("unknown (run from source)")


_PREPARATION = frozenset({"tokenizer.json", TARGET_TOKENIZER, "corpus", "held_out", "initial.safetensors", MANIFEST})
"""Files that a run writes before its config.json, which ends the preparation of the data."""


def require_free(run: Path) -> None:
    """Raise `CannotCreateError` unless a new run may be written at `run`, before the work that makes it."""
    with write_errors(run):
        if run.exists():
            require_writable(run, resume=False)


def require_writable(run: Path, resume: bool) -> None:
    """Raise `CannotCreateError` when what is at `run` must not be overwritten, or taken up without `resume`.

    Raises `MissingInputError` or `DataError` for a run to resume whose config.json is gone, or is not a file.
    """
    if not run.is_dir():
        raise CannotCreateError("{run}: is a file, not a folder; give another --out", run)
    names = sorted(entry.name for entry in run.iterdir() if not entry.name.startswith(TEMPORARY_PREFIX))
    if not names:
        return
    has_config = (run / "config.json").exists()
    if resume and {"checkpoints", MANIFEST}.issubset(names) and check_file(run / "config.json") is None:
        raise MissingInputError("{path}: is missing from the run; restore it from a copy", run / "config.json")
    if not _looks_like_run(run, names):
        listed = ", ".join(names[:3]) + (msg(" and {count} more", len(names) - 3) if len(names) > 3 else "")
        raise CannotCreateError("{run}: holds files that are not of a run ({files}); give another --out", run, listed)
    if (run / "card.md").exists():
        raise CannotCreateError("{run}: holds a finished run; give another --out", run)
    if not resume:
        interrupted = msg("a preparation that was interrupted; add --resume to the same command to make it again")
        what = msg("an unfinished run; add --resume to continue it") if has_config else interrupted
        raise CannotCreateError("{run}: holds {content}, or give another --out", run, what)


def _looks_like_run(run: Path, names: list[str]) -> bool:
    config = run / "config.json"
    if not config.exists():
        return _PREPARATION.issuperset(names)
    try:
        return "format_version" in parse_json(read_regular(config, LIMITS[config.name]))
    except (ValueError, TypeError, OSError, DataError):
        return (run / "checkpoints").is_dir()  # the damaged config.json of a run is still that of a run


def clear_leftovers(run: Path) -> None:
    """Remove what a killed process left half-written. Raises `OSError`."""
    half_written = [f"{TEMPORARY_PREFIX}*", *(f"{folder}/{TEMPORARY_PREFIX}*" for folder in FOLDERS)]
    for pattern in (*half_written, "corpus/*.partial"):
        for entry in run.glob(pattern):
            if entry.is_file() or entry.is_symlink():
                entry.unlink(missing_ok=True)
    if (run / "checkpoints").is_dir():
        remove_leftovers(run / "checkpoints")
