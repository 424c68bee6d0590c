"""An explanation as headings, sentences and tables, before it is rendered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


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

    def mapped(self, say: Callable[[str], str]) -> Table:
        """Return the table with `say` applied to every heading and cell."""
        return Table(
            tuple(replace(column, heading=say(column.heading)) for column in self.columns),
            tuple(tuple(map(say, row)) for row in self.rows),
            tuple(map(say, self.total)),
        )


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

    def mapped(self, say: Callable[[str], str]) -> Explanation:
        """Return the explanation with `say` applied to every text in it."""
        steps = (
            Step(
                say(step.heading),
                tuple(map(say, step.text)),
                step.table and step.table.mapped(say),
                tuple(map(say, step.after)),
            )
            for step in self.steps
        )
        return Explanation(
            say(self.title),
            tuple(map(say, self.introduction)),
            self.vectors and self.vectors.mapped(say),
            tuple(steps),
            tuple(map(say, self.ending)),
        )
