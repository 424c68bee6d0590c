"""Checkpoints: folders that exist whole or not at all, with a manifest of checksums that is written last.

A stranger's run may hold anything in their place: only real folders of the right name are looked into, and only the
files that a checkpoint of ours has.
"""

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat.run_directory.tensor_files import encode_tensors, read_tensors
from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, msg, reason_of
from dikkat_runtime.files import (
    TEMPORARY_PREFIX,
    make_folder,
    read_regular,
    reading_errors,
    sync_directory,
    temporary_name,
    write_errors,
    write_new,
)
from dikkat_runtime.run.parts import FOLDERS, LIMITS, MANIFEST, TARGET_TOKENIZER, check_file, check_folder
from dikkat_runtime.run.strict_json import parse_json

if TYPE_CHECKING:
    from torch import Tensor


# Refuse to write over what is not of a run, or over a run that is finished.


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


# Check what only training reads from a run: the arrays of its corpus, and the names in its checkpoints.

_CHECKPOINT_FILE = re.compile(r"[a-z_]{1,40}\.safetensors|state\.json|metrics\.jsonl")
_ARRAY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<[ui]([248])', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n",
    re.DOTALL,
)


def check_array(path: Path) -> None:
    """Check that an array of a corpus, if there is one, has the header that was written and as many bytes.

    The header is an expression of Python, which numpy would evaluate. Raises `DataError` or `MissingInputError`.
    """
    size = check_file(path)
    if size is None:
        return
    with reading_errors(path), path.open("rb") as file:
        start = file.read(256)
    header = _ARRAY_HEADER.match(start)
    if header is None or header.end() + int(header[1]) * int(header[2]) != size:
        raise DataError("{path}: damaged: not an array of a corpus, or cut short; prepare the data again", path)


_FOLDER_NAME = re.compile(r"step-(\d{6,15})")
_REPLACED_PREFIX = ".replaced-"
_SHORTAGES = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold a sound checkpoint, whose checksums were right when it was opened."""

    step: int
    """Updates done when it was saved."""
    path: Path
    """Its folder."""
    state: dict[str, Any]
    """The state that is not a tensor, as passed to `save_checkpoint`."""
    problems: tuple[str, ...] = ()
    """One line for each later checkpoint that is damaged and was passed over."""

    def tensors(self, name: str) -> "dict[str, Tensor]":
        """Return the tensors saved under `name`, on the CPU. Raises `MissingInputError` or `DataError`."""
        return read_tensors(self.path / f"{name}.safetensors")

    def copy_of(self, name: str) -> bytes | None:
        """Return the copy of a file of the run that was saved with it, or None."""
        path = self.path / name
        return read_regular(path, LIMITS[name]) if check_file(path) is not None else None


def save_checkpoint(
    parent: Path,
    step: int,
    tensors_by_file: "Mapping[str, Mapping[str, Tensor] | Path]",
    state: Mapping[str, Any],
    keep: int,
    copies: Mapping[str, bytes] | None = None,
) -> Path:
    """Save `parent/step-…`, then remove all but the `keep` newest and those later than this step.

    A path in place of tensors is a file of such, written and synced, which moves there. `copies` are files of the run
    to keep with it. Raises `DiskError` or `CannotCreateError`; the checkpoints that were
    there are then untouched.
    """
    folder = parent / f"step-{step:06d}"
    check_folder(parent)
    with write_errors(folder):
        make_folder(parent)
        remove_leftovers(parent)
        temporary = temporary_name(folder)
        try:
            temporary.mkdir()
            _write_files(temporary, step, tensors_by_file, state, copies or {})
            _replace_folder(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(parent)
        _prune(parent, step, keep)
    return folder


def prune_checkpoints(parent: Path, keep: int) -> None:
    """Remove all but the `keep` newest checkpoints, those left by a failed removal too.

    Raises `DiskError` or `CannotCreateError`.
    """
    check_folder(parent)
    if parent.is_dir() and (steps := [step for step, _ in _list(parent)]):
        with write_errors(parent):
            remove_leftovers(parent)
            _prune(parent, max(steps), keep)


def latest_checkpoint(parent: Path) -> Checkpoint | None:
    """Return the newest sound checkpoint, with the `problems` of later damaged ones; None when there is none.

    Raises `DataError` when there are checkpoints and every one is damaged, and `MemoryError` or `OSError` where this
    process lacks memory or files to look: what it cannot read now is not damaged, and must not be given up.
    """
    check_folder(parent)
    if not parent.is_dir():
        return None
    remove_leftovers(parent)
    problems: list[str] = []
    for step, folder in reversed(_list(parent)):
        try:
            return replace(_open(step, folder), problems=tuple(problems))
        except DataError as error:
            if (shortage := _resource_error_cause(error)) is not None:
                raise shortage from None
            problems.append(str(error))
    if problems:
        raise DataError(
            "{parent}: no checkpoint is intact: {problems}; start again with another --out", parent, "; ".join(problems)
        )
    return None


def checkpoint_folders(parent: Path) -> list[Path]:
    """Return all folders of checkpoints, newest first, sound or not. Raises `DataError` where `parent` is no folder."""
    check_folder(parent)
    return [folder for _, folder in reversed(_list(parent))] if parent.is_dir() else []


def remove_leftovers(parent: Path) -> None:
    """Remove what an interrupted save left: half-written folders go, a folder moved aside comes back."""
    for entry in parent.iterdir():
        if entry.name.startswith(TEMPORARY_PREFIX):
            _remove(entry)
        elif entry.name.startswith(_REPLACED_PREFIX):
            original = entry.with_name(entry.name.removeprefix(_REPLACED_PREFIX))
            if original.exists() or not _is_folder(entry):
                _remove(entry)
            else:
                entry.rename(original)


def _is_folder(entry: Path) -> bool:
    return entry.is_dir() and not entry.is_symlink()


def _remove(entry: Path, ignore_errors: bool = True) -> None:
    """Remove a folder with all in it, or whatever else a stranger put in its place: `rmtree` waits at a pipe."""
    if _is_folder(entry):
        shutil.rmtree(entry, ignore_errors=ignore_errors)
    else:
        entry.unlink(missing_ok=True)


def _write_files(
    folder: Path,
    step: int,
    tensors_by_file: "Mapping[str, Mapping[str, Tensor] | Path]",
    state: Mapping[str, Any],
    copies: Mapping[str, bytes],
) -> None:
    checksums, sizes = dict[str, str](), dict[str, int]()

    def write(name: str, content: bytes) -> None:
        write_new(folder / name, content)
        checksums[name], sizes[name] = hashlib.sha256(content).hexdigest(), len(content)

    for name, tensors in tensors_by_file.items():
        if isinstance(tensors, Path):
            path = tensors.rename(folder / f"{name}.safetensors")
            checksums[path.name], sizes[path.name] = _checksum(path), path.stat().st_size
        else:
            write(f"{name}.safetensors", encode_tensors(tensors, {"step": str(step)}))
    for name, content in copies.items():
        write(name, content)
    write("state.json", _to_json(state))
    write_new(folder / MANIFEST, _to_json({"step": step, "sha256": checksums, "bytes": sizes}))
    sync_directory(folder)


def _replace_folder(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    # A folder cannot be renamed over another one; `remove_leftovers` undoes the first step if the second never comes.
    aside = folder.with_name(_REPLACED_PREFIX + folder.name)
    folder.rename(aside)
    try:
        temporary.rename(folder)
    except BaseException:
        aside.rename(folder)
        raise
    # what replaces it must be on the disk before it goes
    sync_directory(folder.parent)
    _remove(aside, ignore_errors=False)


def _prune(parent: Path, step: int, keep: int) -> None:
    folders = _list(parent)
    kept = [folder for number, folder in folders if number <= step][-keep:]
    for _, folder in folders:
        if folder not in kept:
            # Renamed first: a removal that is interrupted must not leave half a checkpoint under a good name.
            half_removed = temporary_name(folder)
            folder.rename(half_removed)
            shutil.rmtree(half_removed)


def _list(parent: Path) -> list[tuple[int, Path]]:
    """Folders of checkpoints, not links to any, by their step."""
    entries = [entry for entry in parent.iterdir() if _is_folder(entry)]
    matches = [(_FOLDER_NAME.fullmatch(entry.name), entry) for entry in entries]
    return sorted((int(match[1]), entry) for match, entry in matches if match)


def _open(step: int, folder: Path) -> Checkpoint:
    try:
        manifest = parse_json(read_regular(folder / MANIFEST, LIMITS[MANIFEST]))
        checksums = dict(manifest["sha256"])
        sizes = _sizes(manifest, checksums)
        if manifest["step"] != step or "state.json" not in checksums:
            raise ValueError("it belongs to another checkpoint")
        if not all(map(_CHECKPOINT_FILE.fullmatch, checksums)):
            raise ValueError("it lists a file that no checkpoint has")
    except (OSError, ValueError, LookupError, TypeError, DataError) as error:
        raise DataError("{folder}: damaged: {manifest} cannot be trusted ({error})", folder, MANIFEST, error) from None
    for name, expected in checksums.items():
        _verify(folder / name, expected, sizes[name])
    return Checkpoint(step, folder, _read_state(folder / "state.json"))


def _sizes(manifest: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    sizes = dict(manifest["bytes"])
    if set(sizes) != set(names) or not all(type(size) is int for size in sizes.values()):
        raise ValueError("it does not tell the size of each file")
    return sizes


def _resource_error_cause(error: BaseException) -> BaseException | None:
    """What this process lacked, where that and nothing in the file made the `error`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _SHORTAGES):
            return cause
        cause = cause.__context__
    return None


def _verify(path: Path, expected: object, expected_size: int) -> None:
    """Compare the size first, which needs no reading: a disk may have made a file of any length."""
    try:
        size = check_file(path)
        if size is not None and size != expected_size:
            raise DataError(
                "{path}: damaged: has {size:,} bytes, but {expected:,} were written", path, size, expected_size
            )
        actual = _checksum(path)
    except OSError as error:
        raise DataError("{path}: damaged: cannot be read ({reason})", path, reason_of(error)) from None
    except MissingInputError as error:
        raise DataError(str(error)) from None
    if actual != expected:
        raise DataError("{path}: damaged: its content does not match its checksum", path)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = parse_json(read_regular(path, LIMITS["state.json"]))
    except (OSError, ValueError) as error:
        raise DataError("{path}: damaged: cannot be read ({reason})", path, error) from None
    if not isinstance(state, dict):
        raise DataError("{path}: damaged: not the state of a training", path)
    return state


def _to_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
