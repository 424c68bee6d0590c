"""An explanation as headings, sentences and tables, before it takes a form of output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """Heading and alignment of a column."""

    heading: str
    numeric: bool = False
    """Set flush right."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as wide as there are columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()
    """A last row that sums up the others; none if empty."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what is done, the numbers, and what follows from them."""

    heading: str
    text: tuple[str, ...]
    table: Table | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The whole explanation, in one language."""

    title: str
    introduction: tuple[str, ...]
    vectors: Table | None
    """The words and their vectors, where the user typed them."""
    steps: tuple[Step, ...]
    ending: tuple[str, ...]
