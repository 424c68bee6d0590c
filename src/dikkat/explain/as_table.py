"""Write an explanation as text and tables for a terminal."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from dikkat.explain.explanation import Explanation, Table


def as_table(explanation: Explanation, width: int = 100) -> str:
    """Return the explanation for a terminal of `width` characters, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, markup=False, highlight=False, emoji=False)
    _write(console, explanation.title, "=" * min(width, len(explanation.title)), *explanation.introduction)
    if explanation.vectors is not None:
        console.print(_table(explanation.vectors))
    for step in explanation.steps:
        _write(console, "", step.heading, "-" * len(step.heading), *step.text)
        if step.table is not None:
            console.print(_table(step.table))
        _write(console, *step.after)
    _write(console, "", *explanation.ending)
    # cells are padded to the width of their column, also the last
    return "".join(line.rstrip() + "\n" for line in out.getvalue().removesuffix("\n").split("\n"))


def _write(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(Text(line))


def _table(table: Table) -> RichTable:
    rich_table = RichTable(box=box.SIMPLE, show_footer=bool(table.total), pad_edge=False)
    for index, column in enumerate(table.columns):
        rich_table.add_column(
            Text(column.heading),
            footer=Text(table.total[index]) if table.total else "",
            justify="right" if column.numeric else "left",
            overflow="fold",  # the default would cut digits off where the terminal is narrow
        )
    for row in table.rows:
        rich_table.add_row(*map(Text, row))
    return rich_table
