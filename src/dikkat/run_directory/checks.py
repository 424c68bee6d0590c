"""Check a file of a run before it is used: a regular file, inside the run, with the content that was written."""

from __future__ import annotations

from pathlib import Path

from dikkat.run_directory.checkpoints import remove_leftovers
from dikkat.run_directory.manifest import Entry, read_manifest, verify
from dikkat.run_directory.parts import ENDED, FOLDERS, MANIFEST, PREPARED, check_file, check_folder
from dikkat_runtime.files import TEMPORARY_PREFIX


def checked(run: Path, name: str) -> Path:
    """Return the path of a file of the run, compared with the manifest where it is listed there.

    Raises `DataError` when it is damaged, and `MissingInputError` when it alone is missing.
    """
    path = run / name
    check_file(path)
    # a folder may be left out as a whole, for instance where a run is passed on without its data
    if (entry := listed(run).get(name)) and path.parent.exists():
        verify(run, name, entry)
    return path


def listed(run: Path) -> dict[str, Entry]:
    """Return the manifest of the files that do not change any more; empty before the preparation has ended.

    Raises `DataError` or `MissingInputError`.
    """
    if not (run / "config.json").exists():
        return {}
    is_finished = (run / "card.md").exists()
    entries = read_manifest(run) or {}
    return {name: entry for name, entry in entries.items() if is_finished or name not in ENDED}


def check_kinds(run: Path) -> None:
    """Check that nothing in the run is a link, a pipe or a device. Raises `DataError` or `MissingInputError`."""
    for name in (*FOLDERS, "checkpoints"):
        check_folder(run / name)
    for name in (*PREPARED, *ENDED, MANIFEST, "model.safetensors"):
        check_file(run / name)


def clear_leftovers(run: Path) -> None:
    """Remove what a killed process left half-written. Raises `OSError`."""
    half_written = [f"{TEMPORARY_PREFIX}*", *(f"{folder}/{TEMPORARY_PREFIX}*" for folder in FOLDERS)]
    for pattern in (*half_written, "corpus/*.partial"):
        for entry in run.glob(pattern):
            if entry.is_file() or entry.is_symlink():
                entry.unlink(missing_ok=True)
    if (run / "checkpoints").is_dir():
        remove_leftovers(run / "checkpoints")
