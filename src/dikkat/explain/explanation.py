"""An explanation as headings, sentences and tables, before it is rendered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """Hold heading and alignment of a column."""

    heading: str
    numeric: bool = False
    """Whether the column is aligned right."""


@dataclass(frozen=True, slots=True)
class Table:
    """Hold rows of cells, as wide as there are columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()
    """Last row that sums up the others; none if empty."""


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one step: what is done, the numbers, and what follows from them."""

    heading: str
    text: tuple[str, ...]
    table: Table | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Hold the whole explanation, in one language."""

    title: str
    introduction: tuple[str, ...]
    vectors: Table | None
    """Words and their vectors, where the user typed them."""
    steps: tuple[Step, ...]
    ending: tuple[str, ...]
