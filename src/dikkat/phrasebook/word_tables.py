"""Read the words of the phrasebook from the tables in this folder, one entry a line under the names of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dikkat.phrasebook.entries import Case, Preposition, Tense
from dikkat_runtime.errors import DataError

Entry = TypeVar("Entry")
_READ: Mapping[str, Callable[[str], Any]] = {
    "kinds": lambda cell: frozenset(cell.split()),
    "gender": {"m": "m", "f": "f"}.__getitem__,
    "goal": lambda cell: Preposition[cell.upper()],
    "case": lambda cell: Case[cell.upper()],
    "tenses": lambda cell: tuple(Tense[name.upper()] for name in cell.split()),
    "person": int,
    "plural": {"singular": False, "plural": True}.__getitem__,
    "turkish_cases": lambda cell: tuple(cell.split()),
}
"""What a cell means, by its column; in every other it is text, and an empty one leaves the field its default."""


def read_words(path: Path, kind: Callable[..., Entry]) -> dict[str, tuple[Entry, ...]]:
    """Return the entries of a table by the group that each line names first, in their order.

    The column `flags` names the fields that are true. Raises DataError for a line that is no entry of that kind.
    """
    groups: dict[str, list[Entry]] = {}
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 2):
        try:
            row = dict(zip(header.split("\t"), line.split("\t"), strict=True))
            group, flags = row.pop("group"), row.pop("flags", "").split()
            if row.keys() & set(flags):
                raise ValueError("a flag that is a column")
            values = {name: _READ.get(name, str)(cell) for name, cell in row.items() if cell}
            groups.setdefault(group, []).append(kind(**values, **dict.fromkeys(flags, True)))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}:{number}: damaged line of the phrasebook; install dikkat again") from error
    return {group: tuple(entries) for group, entries in groups.items()}
