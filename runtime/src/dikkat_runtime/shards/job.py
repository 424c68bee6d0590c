"""The work on every file of a call, and its fingerprint, by which a later call recognises it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import BeamOptions, Device
from dikkat_runtime.engine.precision import RECORD, PrecisionName
from dikkat_runtime.engine.shortlist import SHORTLIST
from dikkat_runtime.errors import unreadable
from dikkat_runtime.run.parts import TARGET_TOKENIZER, WORD_TABLE
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.shards.rows import FormatName
from dikkat_runtime.tasks.corrections import FILE_NAME

Task = Literal["translate", "classify", "embed"]
TASK_OF_KIND: dict[str, Task] = {"translator": "translate", "classifier": "classify"}
"""The work of a kind of model, by its name in config.json; all others embed."""
RUNTIME_OPENER = "dikkat_runtime.shards.models:open_model"
_FILES = ("config.json", "tokenizer.json", TARGET_TOKENIZER, RECORD, SHORTLIST, FILE_NAME)
_CLASSIFIER_FILES = ("metrics.jsonl", WORD_TABLE)
"""A classifier reads its temperature and its table there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The model of a call, and the options of its work on each row."""

    run: Path
    task: Task
    precision: PrecisionName = "auto"
    engine: EngineName = "auto"
    device: Device = "cpu"
    beam: int = BeamOptions().beam_size
    length_penalty: float | None = None
    """The exponent of the length; None for that of the run."""
    format: FormatName | None = None
    """The format of all files; None where the name of each decides."""
    column: str = ""
    """The column with the text, by name, or by number from 1 in a table without a header."""
    output_column: str = ""
    """The name of the first new column; that of the task where it is empty."""
    corrections: bool = True
    """True if a text that a person has corrected comes back as corrected."""
    all_words: bool = False
    """True if the shortlist of words of a translator is left aside."""
    opener: str = RUNTIME_OPENER
    """`module:function` that makes the model in a worker."""
    threads: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return all fields as values of JSON."""
        return {**asdict(self), "run": str(self.run)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Job:
        """Return the job of `to_json`."""
        return cls(**{**values, "run": Path(values["run"])})

    @property
    def thread_variables(self) -> dict[str, str]:
        """The environment in which a worker computes, and cuts texts into tokens, by `threads` threads."""
        # the tokenizers have threads of their own (rayon), as many as processors unless they are told
        return dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(self.threads))

    @property
    def options(self) -> dict[str, Any]:
        """The options that change the output, next to the model; `all_words` only where it is True."""
        left_out = ["run", "threads", "opener"]
        if not self.all_words:
            # so that what was begun before there was this option can be gone on with
            left_out.append("all_words")
        return {name: value for name, value in self.to_json().items() if name not in left_out}


def task_of(kind: str, *, embed: bool) -> Task:
    """Return the work of a model of this kind; with `embed`, vectors for every kind."""
    return "embed" if embed else TASK_OF_KIND.get(kind, "embed")


def model_fingerprint(job: Job) -> str:
    """Return the SHA-256 over everything in the run directory that changes an output.

    Raises `MissingInputError` or `DataError` where the weights cannot be read.
    """
    digest = hashlib.sha256(read_checksum(job.run / "model.safetensors").encode())
    names = [*_FILES, *(_CLASSIFIER_FILES if job.task == "classify" else ())]
    for name in names:
        if (name == FILE_NAME and not job.corrections) or (name == SHORTLIST and job.all_words):
            continue
        path = job.run / name
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise unreadable(path, error) from None
        digest.update(json.dumps([name, hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()
