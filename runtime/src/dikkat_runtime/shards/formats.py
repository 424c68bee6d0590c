"""The formats of files with a row a text, recognised by their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import msg

FormatName = Literal["text", "jsonl", "tsv", "csv", "parquet"]
Packing = Literal["", "gz", "zst"]

FORMAT_NAMES: tuple[FormatName, ...] = get_args(FormatName)
_BY_SUFFIX: dict[str, FormatName] = {
    ".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".csv": "csv",
    ".parquet": "parquet",
}  # fmt: skip
_PACKINGS: dict[str, Packing] = {".gz": "gz", ".zst": "zst"}
KNOWN = msg("{by_suffix}, all but .parquet also with .gz or .zst").fill(" ".join(_BY_SUFFIX))


@dataclass(frozen=True, slots=True)
class Format:
    """The format of the rows of a file, and its packing."""

    name: FormatName
    packing: Packing = ""


def format_of(path: Path, asked: FormatName | None = None) -> Format | None:
    """Return the format of a file by its name, or as `asked`; None for a name that tells none.

    Raises `UsageError` for a packed Parquet file, which packs its columns itself.
    """
    packing = _PACKINGS.get(path.suffix.lower(), "")
    name = path.with_suffix("") if packing else path
    format_name = asked or _BY_SUFFIX.get(name.suffix.lower())
    if format_name is None:
        return None
    if format_name == "parquet" and packing:
        raise UsageError("{path}: Parquet packs its columns itself; unpack the file").fill(path)
    return Format(format_name, packing)
