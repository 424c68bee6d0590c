"""Vectors as files: npz for programs, TSV as `dikkat explain --vectors` reads it, JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.tasks.embedder import Vector, tsv_line


def check_suffix(path: Path) -> None:
    """Raises `UsageError` for a file of a kind that is not known."""
    if path.suffix not in _WRITERS:
        raise UsageError("{path}: vectors are written as {writers}, not {suffix}").fill(
            path, ", ".join(_WRITERS), path.suffix or msg("without a suffix")
        )


def write_vectors(path: Path, vectors: Sequence[Vector], of_tokens: bool) -> None:
    """Write the file whole, or leave it as it was. Raises `UsageError`, `DiskError` or `CannotCreateError`."""
    check_suffix(path)
    write_atomically(path, _WRITERS[path.suffix](vectors, of_tokens))


def _npz(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    arrays = {
        "vectors": np.stack([vector.values for vector in vectors]) if vectors else np.zeros((0, 0), np.float32),
        "lines": np.array([vector.line for vector in vectors], dtype=np.int64),
    }
    if of_tokens:
        arrays["pieces"] = np.array([vector.text for vector in vectors], dtype=np.str_)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _tsv(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    return "".join(tsv_line(vector, of_tokens) + "\n" for vector in vectors).encode()


def _jsonl(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    name = "piece" if of_tokens else "text"
    return "".join(
        f'{{"line": {vector.line}, "{name}": {json.dumps(vector.text, ensure_ascii=False)}, '
        f'"vector": [{", ".join(map(str, vector.values))}]}}\n'
        for vector in vectors
    ).encode()


_WRITERS: dict[str, Callable[[Sequence[Vector], bool], bytes]] = {".npz": _npz, ".tsv": _tsv, ".jsonl": _jsonl}
