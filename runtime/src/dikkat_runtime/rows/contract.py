"""The contract of a format: it reads and writes rows in order, a chunk at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from dikkat_runtime.errors import UsageError, msg

# The formats of files with a row a text, recognised by their names.

FormatName = Literal["text", "jsonl", "tsv", "csv", "parquet"]
Packing = Literal["", "gz", "bz2", "xz", "zst"]

FORMAT_NAMES: tuple[FormatName, ...] = get_args(FormatName)
_BY_SUFFIX: dict[str, FormatName] = {
    ".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".csv": "csv",
    ".parquet": "parquet",
}  # fmt: skip
_PACKINGS: dict[str, Packing] = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
KNOWN = msg("{formats}, all but .parquet also with .gz, .bz2, .xz or .zst", " ".join(_BY_SUFFIX))


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
        raise UsageError("{path}: Parquet packs its columns itself; unpack the file", path)
    return Format(format_name, packing)


CHUNK_ROWS = 4096
"""Rows in memory at a time: two windows of a translator."""
CHUNK_CHARACTERS = 4_000_000
"""Of their texts, about."""
CHUNK_BYTES = 16 << 20
"""Of all that stands in them in the file, about."""

Values = tuple[Any, ...]
"""The values of one row in the new columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A new column."""

    name: str
    kind: Literal["text", "number", "texts", "vector"]
    """The vector is of float32; "texts" stand in a list."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that has no text to work on though it should."""

    row: int
    """From 1; a header is none."""
    reason: str


@dataclass(slots=True)
class Chunk:
    """Rows that follow one another."""

    rows: Any
    """As the writer of the same format takes them."""
    texts: list[str | None]
    """None where there is nothing to answer."""
    failures: list[Failure] = field(default_factory=list)


class RowWriter(Protocol):
    """Writes chunks with the values of their new columns."""

    def write(self, chunk: Chunk, answers: Sequence[Values | None]) -> None:
        """Append a chunk; `answers` has an entry a row, None where the text is None."""

    def close(self) -> None:
        """Write what is left. The file that was given is not closed."""


class RowReader(Protocol):
    """Reads a file from its beginning."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows. Raises `DataError` for what cannot be read on from."""

    @property
    def fraction(self) -> float:
        """The share of the file that was read."""

    def writer(self, file: Any) -> RowWriter:
        """Return what writes to a binary `file`, in the format that was read, with the new columns after the others.

        It, or its first write, raises `UsageError` where a column of that name is there already.
        """
