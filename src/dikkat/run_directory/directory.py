"""One run on disk: the path of each part, who may write it, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dikkat.run_directory.checkpoints import (
    Checkpoint,
    checkpoint_folders,
    latest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from dikkat.run_directory.lock import locked
from dikkat.run_directory.manifest import write_manifest
from dikkat.run_directory.metrics import append_metrics, restore_metrics, truncate_metrics
from dikkat.run_directory.paths import RunPaths
from dikkat.run_directory.tensor_files import encode_tensors, read_metadata, read_tensors
from dikkat.run_directory.version import installed_version
from dikkat.run_directory.writable import clear_leftovers, require_writable
from dikkat_runtime.errors import MissingInputError
from dikkat_runtime.files import make_folder, probe_beside, sync_directory, write_atomically, write_errors
from dikkat_runtime.run.config import FORMAT_VERSION, labels_of, read_settings
from dikkat_runtime.run.manifest import checked, listed, read_manifest
from dikkat_runtime.run.metrics import SETTINGS_HASH, foreign_rows, metrics_of_run, settings_hash
from dikkat_runtime.run.parts import ENDED, FOLDERS, MANIFEST, PREPARED, check_kinds
from dikkat_runtime.run.weights import require_weights

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class RunDirectory(RunPaths):
    """Read and write the folder of one run; files are written beside, fsynced and renamed, nothing is pickled."""

    @classmethod
    def create(cls, path: Path, *, resume: bool = False) -> RunDirectory:
        """Make the folder, or resume the unfinished run in it when `resume` is set.

        Raises `CannotCreateError` when something is there that must not be overwritten or the place cannot be
        written, `MissingInputError` when there is nothing to resume, `DataError` when its config.json is damaged.
        """
        run = cls(path)
        with write_errors(path):
            if path.exists():
                require_writable(path, resume)
                if run.has_config:
                    run.read_config()
            elif resume:
                raise MissingInputError(f"{path}: there is no run to resume; leave --resume out to start one")
            make_folder(path)
            probe_beside(run.config)
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run. Raises as `read_settings`."""
        run = cls(path)
        run.read_config()
        return run

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep other processes from writing this run, and remove what a killed one left half-written.

        What is yielded is False where no lock is to be had. Raises `CannotCreateError` when another process writes it
        or it may not be written, and `DiskError`.
        """
        with locked(self.path) as is_locked:
            check_kinds(self.path)
            with write_errors(self.path):
                clear_leftovers(self.path)
            yield is_locked

    def make_folder(self, name: Literal["corpus", "held_out"]) -> Path:
        """Return a folder of the run, created if it is missing. Raises `DiskError` or `CannotCreateError`."""
        folder = self.path / name
        with write_errors(folder):
            make_folder(folder)
        return folder

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Write config.json: versions, then `settings`. Raises `DiskError` or `CannotCreateError`."""
        versions = {"format_version": FORMAT_VERSION, "dikkat_version": installed_version()}
        content = json.dumps({**versions, **settings}, indent=2, ensure_ascii=False) + "\n"
        with write_errors(self.config):
            for folder in filter(Path.is_dir, (self.path / name for name in FOLDERS)):
                sync_directory(folder)
            # settings that are written again: whichever of the two are there after a crash, they are known
            before = self.config.read_bytes() if self.has_config else None
            new = {self.config.name: content.encode()}
            write_manifest(self.path, PREPARED, new, before)
            self.write_text(self.config.name, content)
            if before is not None:
                write_manifest(self.path, PREPARED, new)

    def write_card(self, text: str) -> None:
        """Write card.md, which ends the run. Raises `DiskError` or `CannotCreateError`."""
        name = "card.md"
        with write_errors(self.path / name):
            write_manifest(self.path, (*PREPARED, *ENDED), {name: text.encode()})
        training = self.read_config().get("training", {})
        if "keep_checkpoints" in training:
            prune_checkpoints(self.checkpoints, training["keep_checkpoints"])
        self.write_text(name, text)

    def read_config(self) -> dict[str, Any]:
        """Return the settings as passed to `write_config`, without the versions. Raises as `read_settings`."""
        return read_settings(self.path)

    def labels(self) -> tuple[str, ...]:
        """Return the classes of a classifier, in the order of their ids. Raises as `read_config`."""
        return labels_of(self.path, self.read_config())

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append one row to metrics.jsonl with the hash of the settings, and sync it to disk.

        Raises as `read_config`, `DiskError` or `CannotCreateError`.
        """
        append_metrics(self.metrics, {**row, SETTINGS_HASH: settings_hash(self.read_config())})

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return all rows of metrics.jsonl, as passed to `append_metrics`. Raises `DataError` with file and line."""
        return [{key: value for key, value in row.items() if key != SETTINGS_HASH} for row in self._rows()]

    def foreign_metrics(self) -> list[int]:
        """Return the numbers (from 1) of rows that were measured under other settings than those in config.json."""
        return foreign_rows(self._rows(), self.read_config())

    def truncate_metrics(self, after_step: int) -> None:
        """Drop the rows later than the step that a run resumes from."""
        truncate_metrics(self.metrics, after_step)

    def resume_from(self, checkpoint: Checkpoint | None) -> list[str]:
        """Check all that is trained on, and bring metrics.jsonl to where `checkpoint` (None: the beginning) was saved.

        Returns what a user should know. Raises as `checked`, and `DataError` for damaged rows without a copy.
        """
        for name in listed(self.path):
            checked(self.path, name)
        notes = []
        if read_manifest(self.path) is None:
            notes.append(f"{self.path} has no {MANIFEST} (it is of an older dikkat): its data is not checked")
        return notes + restore_metrics(self.metrics, checkpoint)

    def write_text(self, name: str, text: str) -> None:
        """Replace the text file `name` (UTF-8). Raises `DiskError` or `CannotCreateError`."""
        write_atomically(self.path / name, text.encode())

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Replace the safetensors file `name`. Raises `DiskError` or `CannotCreateError`."""
        write_atomically(self.path / name, encode_tensors(tensors, {}))

    def save_weights(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """Replace model.safetensors. Raises `DiskError` or `CannotCreateError`; the old weights then stay."""
        write_atomically(self.weights, encode_tensors(tensors, metadata))

    def load_weights(self) -> dict[str, Tensor]:
        """Return the weights, on the CPU. Raises `MissingInputError`, or `DataError` when a single bit is wrong."""
        require_weights(self.weights)
        return read_tensors(self.weights)

    def weights_metadata(self) -> dict[str, str]:
        """Return the metadata that was saved with the weights. Raises `MissingInputError` or `DataError`."""
        return read_metadata(self.weights)

    def save_checkpoint(
        self,
        step: int,
        tensors_by_file: Mapping[str, Mapping[str, Tensor] | Path],
        state: Mapping[str, Any],
        *,
        keep: int = 2,
    ) -> Path:
        """Save checkpoints/step-… whole or not at all, and keep the `keep` newest; see `checkpoints.py`."""
        copies = {self.metrics.name: self.metrics.read_bytes()} if self.metrics.exists() else {}
        return save_checkpoint(self.checkpoints, step, tensors_by_file, state, keep, copies)

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest sound checkpoint; its `problems` name the damaged ones that were passed over.

        Raises `DataError` when there are checkpoints and every one is damaged.
        """
        return latest_checkpoint(self.checkpoints)

    def checkpoint_folders(self) -> list[Path]:
        """Return the folders of the checkpoints, the newest first, sound or not. Raises as `checked`."""
        return checkpoint_folders(self.checkpoints)

    def remove_if_empty(self) -> None:
        """Remove the folder if nothing was written into it."""
        with suppress(OSError):
            self.path.rmdir()

    def _rows(self) -> list[dict[str, Any]]:
        return metrics_of_run(self.path)
