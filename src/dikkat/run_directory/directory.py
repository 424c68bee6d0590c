"""One run on disk: the path of each part, who may write it, and how it is read back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dikkat.run_directory.checkpoints import (
    Checkpoint,
    check_array,
    checkpoint_folders,
    clear_leftovers,
    latest_checkpoint,
    prune_checkpoints,
    require_writable,
    save_checkpoint,
)
from dikkat.run_directory.tensor_files import encode_tensors, read_tensors
from dikkat_runtime import __version__
from dikkat_runtime.errors import MissingInputError, msg
from dikkat_runtime.files import (
    append_line,
    locked_run,
    make_folder,
    probe_next_to,
    sync_directory,
    write_atomically,
    write_errors,
)
from dikkat_runtime.run.config import FORMAT_VERSION, labels_of, read_settings
from dikkat_runtime.run.manifest import Entry, checked, checksum_of_entries, checksum_of_file, listed, read_manifest
from dikkat_runtime.run.metrics import (
    SETTINGS_HASH,
    foreign_rows,
    lines_of,
    metrics_of_run,
    read_metrics,
    settings_hash,
    with_seal,
)
from dikkat_runtime.run.parts import (
    CORPUS,
    ENDED,
    FOLDERS,
    MANIFEST,
    MEMBERS,
    PREPARED,
    TARGET_TOKENIZER,
    check_file,
    check_folder,
    check_kinds,
)
from dikkat_runtime.run.weights import base_of, read_weights, require_weights

HeldOut = Literal["validation", "general", "test"]
"""The parts that are never trained on; only an adaptation has the general one."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Return the path of each part of one run; reading a part that a manifest lists checks it first."""

    path: Path

    @property
    def config(self) -> Path:
        """Return the path of format version, dikkat version and settings."""
        return self.path / "config.json"

    @property
    def tokenizer(self) -> Path:
        """Return the path of the tokenizer, in the format of the `tokenizers` library; raises as `checked`."""
        return checked(self.path, "tokenizer.json")

    @property
    def target_tokenizer(self) -> Path:
        """The tokenizer of the target, in a run whose vocabularies are separate; raises as `checked`."""
        return checked(self.path, TARGET_TOKENIZER)

    @property
    def initial(self) -> Path:
        """Return the path of the initial weights, where they are not random; raises as `checked`."""
        return checked(self.path, "initial.safetensors")

    @property
    def weights(self) -> Path:
        """Return the path of the weights to use."""
        return self.path / "model.safetensors"

    @property
    def card(self) -> Path:
        """Return the path of the model card, the last file that a run writes."""
        return checked(self.path, "card.md")

    @property
    def precision(self) -> Path:
        """The path of precision.json, which tells what eight bits cost on the validation part; raises as `checked`."""
        return checked(self.path, "precision.json")

    @property
    def map_history(self) -> Path:
        """Return the path of the attention maps of a few sentences over the training."""
        return self.path / "attention.npz"

    @property
    def metrics(self) -> Path:
        """Return the path of the metrics, one line for each validation; raises as `checked`."""
        return checked(self.path, "metrics.jsonl")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def member(self, number: int) -> Path:
        """Return the folder of the run whose probabilities are averaged with those of this one, from number 2 on."""
        return self.path / MEMBERS / str(number)

    @property
    def corpus(self) -> Path:
        """Return the folder of the memory-mapped training data; raises as `checked`."""
        folder = self.path / "corpus"
        check_folder(folder)
        for name in CORPUS:
            path = checked(self.path, name)
            if self.has_config:
                check_array(path)
        return folder

    def held_out(self, part: HeldOut, side: Literal["source", "target"]) -> Path:
        """Return the text file of one side of a part that is never trained on; raises as `checked`."""
        check_folder(self.path / "held_out")
        return checked(self.path, f"held_out/{part}.{side}.txt")

    @property
    def is_finished(self) -> bool:
        return (self.path / "card.md").exists()

    @property
    def has_config(self) -> bool:
        """Return whether the preparation of the data is finished."""
        return self.config.exists()


def append_metrics(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row, and sync it to disk. Raises `DiskError` or `CannotCreateError`."""
    before = b"".join(line + b"\n" for line in lines_of(path))
    append_line(path, with_seal(_to_line(row), hashlib.sha256(before)))


def truncate_metrics(path: Path, after_step: int) -> None:
    """Drop the rows later than `after_step`, which a resumed run will write again. Raises as `read_metrics`."""
    rows = read_metrics(path)
    kept = [row for row in rows if row["step"] <= after_step]
    if len(kept) < len(rows):
        write_atomically(path, b"".join(line + b"\n" for line in lines_of(path)[: len(kept)]))


def _to_line(row: Mapping[str, Any]) -> bytes:
    # JSON has no NaN: other programs could not read the file.
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(finite, ensure_ascii=False).encode()


def write_manifest(
    folder: Path, names: Iterable[str], contents: Mapping[str, bytes], before: bytes | None = None
) -> None:
    """List the existing files `names`, and those of `contents`, which are about to be written over `before`.

    Raises `OSError`, `DiskError` or `CannotCreateError`.
    """
    old = "" if before is None else hashlib.sha256(before).hexdigest()
    entries = {
        name: Entry(len(content), hashlib.sha256(content).hexdigest(), old) for name, content in contents.items()
    }
    for name in names:
        path = folder / name
        if name not in entries and (size := check_file(path)) is not None:
            entries[name] = Entry(size, checksum_of_file(path))
    files = {
        name: {key: value for key, value in asdict(entries[name]).items() if value != ""} for name in sorted(entries)
    }
    content = json.dumps({"files": files, "sha256": checksum_of_entries(files)}, indent=1) + "\n"
    write_atomically(folder / MANIFEST, content.encode())


if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class RunDirectory(RunPaths):
    """Read and write the folder of one run; files are written aside, fsynced and renamed, nothing is pickled."""

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
                raise MissingInputError("{path}: there is no run to resume; leave --resume out to start one", path)
            make_folder(path)
            probe_next_to(run.config)
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
        with locked_run(self.path) as is_locked:
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
        versions = {"format_version": FORMAT_VERSION, "dikkat_version": __version__}
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

        Returns what a user should know. Raises as `checked`.
        """
        for name in listed(self.path):
            checked(self.path, name)
        notes: list[str] = []
        if read_manifest(self.path) is None:
            notes.append(msg("{path} has no {manifest}: its data is not checked", self.path, MANIFEST))
        # a checkpoint that was saved after a row has a copy of the rows, so that none is lost
        copy = (checkpoint.copy_of(self.metrics.name) if checkpoint else None) or b""
        content = b"".join(line + b"\n" for line in lines_of(self.metrics))
        # what was written after the checkpoint will be written again
        if content != copy:
            write_atomically(self.metrics, copy)
        if checkpoint and not content.startswith(copy):
            note = msg("{path} was damaged; its rows are restored from {name}", self.metrics, checkpoint.path.name)
            notes.append(note)
        return notes

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
        if base_of(self.weights) is None:
            return read_tensors(self.weights)
        import torch

        return {name: torch.tensor(array) for name, array in read_weights(self.weights).items()}

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
