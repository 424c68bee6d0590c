"""Check where a table of pairs is to be written."""

from __future__ import annotations

from pathlib import Path

from dikkat_runtime.errors import CannotCreateError, UsageError
from dikkat_runtime.files import probe_beside, write_errors


def check_table(out: Path, option: str) -> None:
    """Raise an error of the user where a table of pairs cannot be written to `out`, before any work."""
    if out.suffix != ".tsv":
        raise UsageError("{option} {out}: a table of pairs is written as .tsv", option, out)
    if out.exists():
        raise CannotCreateError("{out}: exists already; name another file, or remove it", out)
    with write_errors(out):
        probe_beside(out)
