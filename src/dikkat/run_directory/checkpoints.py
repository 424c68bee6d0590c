"""Checkpoints: folders that exist whole or not at all, with a manifest of checksums that is written last."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dikkat.disk import TEMPORARY_PREFIX, sync_directory, temporary_beside, write_errors, write_new
from dikkat.errors import DataError
from dikkat.run_directory.tensor_files import encode_tensors, read_tensors

_FOLDER_NAME = re.compile(r"step-(\d+)")
_REPLACED_PREFIX = ".replaced-"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A sound checkpoint: its checksums were right when it was opened."""

    step: int
    """Updates done when it was saved."""
    path: Path
    """Its folder."""
    state: dict[str, Any]
    """What is not a tensor, as it was given to `save_checkpoint`."""
    problems: tuple[str, ...] = ()
    """One line for each later checkpoint that is damaged and was passed over."""

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors saved under `name`, on the CPU. Raises `MissingInputError` or `DataError`."""
        return read_tensors(self.path / f"{name}.safetensors")


def save_checkpoint(
    parent: Path, step: int, tensors_by_file: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], keep: int
) -> Path:
    """Save `parent/step-…`, then remove all but the `keep` newest and those of a future given up by a resume.

    Raises `DiskError` or `CannotCreateError`; the checkpoints that were there are then untouched.
    """
    folder = parent / f"step-{step:06d}"
    with write_errors(folder):
        parent.mkdir(exist_ok=True)
        remove_leftovers(parent)
        temporary = temporary_beside(folder)
        try:
            temporary.mkdir()
            _write_files(temporary, step, tensors_by_file, state)
            _put_in_place(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(parent)
        _prune(parent, step, keep)
    return folder


def latest_checkpoint(parent: Path) -> Checkpoint | None:
    """The newest sound checkpoint with the `problems` of the damaged ones after it; None when there is none at all.

    Raises `DataError` when there are checkpoints and every one is damaged.
    """
    if not parent.is_dir():
        return None
    remove_leftovers(parent)
    problems: list[str] = []
    for step, folder in reversed(_list(parent)):
        try:
            return replace(_open(step, folder), problems=tuple(problems))
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError(f"{parent}: no checkpoint is sound: {'; '.join(problems)}; start again with another --out")
    return None


def remove_leftovers(parent: Path) -> None:
    """Clear away what an interrupted save left: half-written folders go, a folder moved aside comes back."""
    for entry in parent.iterdir():
        if entry.name.startswith(TEMPORARY_PREFIX):
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name.startswith(_REPLACED_PREFIX):
            original = entry.with_name(entry.name.removeprefix(_REPLACED_PREFIX))
            if original.exists():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.rename(original)


def _write_files(
    folder: Path, step: int, tensors_by_file: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    checksums: dict[str, str] = {}

    def write(name: str, content: bytes) -> None:
        write_new(folder / name, content)
        checksums[name] = hashlib.sha256(content).hexdigest()

    for name, tensors in tensors_by_file.items():
        write(f"{name}.safetensors", encode_tensors(tensors, {"step": str(step)}))
    write("state.json", _to_json(state))
    write_new(folder / "manifest.json", _to_json({"step": step, "sha256": checksums}))
    sync_directory(folder)


def _put_in_place(temporary: Path, folder: Path) -> None:
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
    shutil.rmtree(aside)


def _prune(parent: Path, step: int, keep: int) -> None:
    found = _list(parent)
    kept = [folder for number, folder in found if number <= step][-keep:]
    for _, folder in found:
        if folder not in kept:
            # Renamed first: a removal that is interrupted must not leave half a checkpoint under a good name.
            half_removed = temporary_beside(folder)
            folder.rename(half_removed)
            shutil.rmtree(half_removed)


def _list(parent: Path) -> list[tuple[int, Path]]:
    matches = [(_FOLDER_NAME.fullmatch(entry.name), entry) for entry in parent.iterdir() if entry.is_dir()]
    return sorted((int(match[1]), entry) for match, entry in matches if match)


def _open(step: int, folder: Path) -> Checkpoint:
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        checksums = dict(manifest["sha256"])
        if manifest["step"] != step or "state.json" not in checksums:
            raise ValueError("it belongs to another checkpoint")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{folder}: damaged: manifest.json cannot be trusted ({error})") from None
    for name, expected in checksums.items():
        _verify(folder / name, expected)
    return Checkpoint(step, folder, json.loads((folder / "state.json").read_bytes()))


def _verify(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: damaged: cannot be read ({error.strerror})") from None
    if actual != expected:
        raise DataError(f"{path}: damaged: its content does not match its checksum")


def _to_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
