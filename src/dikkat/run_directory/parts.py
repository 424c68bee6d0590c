"""Check what only training reads from a run: the arrays of its corpus, and the names in its checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

from dikkat_runtime.errors import DataError, unreadable
from dikkat_runtime.run.parts import check_file

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
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except OSError as error:
        raise unreadable(path, error) from None
    header = _ARRAY_HEADER.match(start)
    if header is None or header.end() + int(header[1]) * int(header[2]) != size:
        raise DataError("{path}: damaged: not an array of a corpus, or cut short; prepare the data again").fill(path)


def is_checkpoint_file(name: object) -> bool:
    """Return whether a checkpoint may list a file of this name."""
    return isinstance(name, str) and _CHECKPOINT_FILE.fullmatch(name) is not None
