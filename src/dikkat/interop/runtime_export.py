"""Write of a run what translates, classifies or writes: a folder for dikkat-runtime, signed by its manifest."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dikkat.interop.parity import whole_folder
from dikkat.run_directory.directory import write_manifest
from dikkat.run_directory.tensor_files import encode_tensors, quantize_rows, read_metadata
from dikkat_runtime.engine.options import NativePrecision
from dikkat_runtime.engine.precision import RECORD, PrecisionName, choose_precision
from dikkat_runtime.engine.shortlist import OWNER, SHORTLIST
from dikkat_runtime.errors import MissingInputError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import member_runs, read_config
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import (
    CONFIG,
    ENDED,
    EXPORTED,
    MEMBERS,
    METRICS,
    PREPARED,
    TARGET_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    WORD_TABLE,
    check_file,
)
from dikkat_runtime.run.weights import (
    ADAPTS,
    EXPORTED_FROM,
    NOTES,
    SCALE,
    STORED_PRECISION,
    read_arrays,
    read_checksum,
    read_weights,
)
from dikkat_runtime.tasks.corrections import FILE_NAME

_ALWAYS = (TOKENIZER, TARGET_TOKENIZER, WORD_TABLE, "card.md", *EXPORTED)
_IN_FLOAT32 = (
    "embedding.weight", "output_weight", "positions.embedding", "segment_embedding",
)  # fmt: skip
"""Ends of the names of matrices that the native engine looks rows up in, which it does in float32."""


def export_runtime(run: Path, out: Path, precision: PrecisionName, *, with_corrections: bool) -> NativePrecision:
    """Write the folder `out` from a finished run and return the precision of its weights.

    The folder has what its model computes with: neither the texts that it was trained on nor checkpoints, and what
    people have corrected only `with_corrections`. Raises `MissingInputError` or `DataError` naming the file that is
    missing or damaged, `UsageError` for a kind of model that the runtime does not run, `CannotCreateError` and
    `DiskError`.
    """
    config = read_config(run)
    if check_file(run / "card.md") is None:
        raise MissingInputError("{run}: is not finished; train on with --resume", run)
    chosen = choose_precision(run, precision)[0]
    names = [
        *_ALWAYS,
        *([METRICS] if config["task"] == "classifier" else []),
        *([RECORD] if chosen == "float32" else []),
    ]
    # one that is listed and missing is refused where it is compared
    files = {name: path.read_bytes() for name in names if check_file(path := checked(run, name)) is not None}
    if TOKENIZER not in files:
        raise MissingInputError("{path}: is missing from the run; restore it from a copy", run / TOKENIZER)
    files |= _weights(run, chosen, config) | {CONFIG: (run / CONFIG).read_bytes()}
    if with_corrections and check_file(run / FILE_NAME) is not None:
        files[FILE_NAME] = (run / FILE_NAME).read_bytes()
    with whole_folder(out) as folder:
        _write(folder, files)
        for member in member_runs(run, config)[1:]:
            read_config(member, config["task"])
            (folder / MEMBERS / member.name).mkdir(parents=True)
            _write(
                folder / MEMBERS / member.name,
                {**_weights(member, chosen, config), CONFIG: (member / CONFIG).read_bytes()},
            )
    return chosen


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, and the manifest of those that it lists."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    write_manifest(folder, (*PREPARED, *ENDED, *EXPORTED), {})


def _weights(run: Path, precision: NativePrecision, config: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of the weights, and of the shortlist that is for them, by their names."""
    path, has_shortlist = run / WEIGHTS, check_file(run / SHORTLIST) is not None
    arrays = read_weights(path)
    metadata = read_metadata(path)
    if precision == "float32" or metadata.get(STORED_PRECISION) == precision:
        names = [WEIGHTS, *([SHORTLIST] if has_shortlist else [])]
        return {name: (run / name).read_bytes() for name in names}
    # adapters of the run are for its export too; an adapter that becomes whole is none any more
    metadata, origin = {**metadata}, {EXPORTED_FROM: read_checksum(path)}
    metadata.pop(ADAPTS, None)
    # groups of a language model's weights are rounded once, when it is opened: rounded rows would be rounded again
    stored = arrays if config["task"] == "lm" else _in_bytes(arrays)
    files = {WEIGHTS: _encoded(stored, {**metadata, **origin, STORED_PRECISION: precision})}
    if has_shortlist:
        note = {**read_metadata(run / SHORTLIST), OWNER: _checksum_of(files[WEIGHTS])}
        files[SHORTLIST] = _encoded(read_arrays(run / SHORTLIST, "I32"), note)
    return files


def _checksum_of(content: bytes) -> str:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return str(json.loads(header["__metadata__"][NOTES])["sha256"])


def _in_bytes(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the matrices that the native engine multiplies with as steps and their sizes, and all else as it is."""
    stored = dict[str, Array]()
    for name, array in arrays.items():
        if array.ndim != 2 or name.endswith(_IN_FLOAT32):
            stored[name] = array
            continue
        rows = quantize_rows(array)
        stored |= {name: rows.steps, name + SCALE: rows.scale}
    return stored


def _encoded(arrays: Mapping[str, Array], notes: Mapping[str, str]) -> bytes:
    return encode_tensors({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, notes)
