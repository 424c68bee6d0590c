"""Write the manifest of a run, whose sizes and checksums every reader compares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.manifest import Entry, checksum_of_entries, checksum_of_file
from dikkat_runtime.run.parts import MANIFEST, check_file


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
