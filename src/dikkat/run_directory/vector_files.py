"""Write float32 vectors that come piece by piece as the safetensors file that `tensor_files` reads and would write."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat.run_directory.tensor_files import NOTES
from dikkat_runtime.files import write_errors

if TYPE_CHECKING:
    from torch import Tensor

_UNKNOWN = "0" * 64
"""What stands in the header in place of the checksum until all values are written."""


def write_vectors(
    path: Path,
    sizes: Mapping[str, int],
    pieces: Mapping[str, Iterable[Tensor]],
    metadata: Mapping[str, str],
    named: Path | None = None,
) -> None:
    """Write a new file of vectors of `sizes`, each of which its `pieces` are, in the order of their names.

    The library would need all values at once. Raises `DiskError` or `CannotCreateError` about the file, or about
    the one that it is to become, `named`; it is then gone.
    """
    notes: dict[str, Any] = {"aliases": {}, "metadata": dict(metadata)}
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    header = _header(sizes, json.dumps({**notes, "sha256": _UNKNOWN}, sort_keys=True))
    with write_errors(named or path):
        try:
            with path.open("xb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                for name in sorted(sizes):
                    digest.update(json.dumps([name, "torch.float32", [sizes[name]]]).encode())
                    for piece in pieces[name]:
                        values = piece.numpy().data
                        digest.update(values)
                        file.write(values)
                file.seek(8 + header.index(_UNKNOWN.encode()))
                file.write(digest.hexdigest().encode())
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _header(sizes: Mapping[str, int], notes: str) -> bytes:
    """Return the header of a safetensors file, filled up with spaces so that the values begin at a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {NOTES: notes}}
    end = 0
    for name in sorted(sizes):
        start, end = end, end + 4 * sizes[name]
        entries[name] = {"dtype": "F32", "shape": [sizes[name]], "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8)
