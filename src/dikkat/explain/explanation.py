"""An explanation as headings, sentences and tables, before it is rendered."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from dikkat.explain.drawing.chart import escaped
from dikkat.explain.report.html import foreign, heading, paragraph
from dikkat.explain.trace import ModelTrace, Trace


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

    def mapped(self, say: Callable[[str], str]) -> "Explanation":
        """Return the explanation with `say` applied to every text in it."""
        return cast(Explanation, _mapped(self, say))


def _mapped(value: Any, say: Callable[[str], str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_mapped(item, say) for item in value)
    if isinstance(value, Explanation | Step | Table | Column):
        return replace(value, **{field.name: _mapped(getattr(value, field.name), say) for field in fields(value)})
    return say(value) if isinstance(value, str) else value


def as_json(explanation: Explanation, traced: Trace | ModelTrace | dict[str, Any]) -> str:
    """Return one JSON object: title, introduction, steps (heading and text), ending, and the numbers behind it."""
    content: dict[str, Any] = {
        "title": explanation.title,
        "introduction": list(explanation.introduction),
        "steps": [{"heading": step.heading, "text": [*step.text, *step.after]} for step in explanation.steps],
        "ending": list(explanation.ending),
    }
    if isinstance(traced, ModelTrace):
        content["cell"] = {
            "stack": traced.stack,
            "layer": traced.layer + 1,
            "head": traced.head + 1,
            "kind": traced.kind,
            "query_input": traced.query_input.tolist(),
            "module_output": traced.module_output.tolist(),
            "largest_difference": traced.difference,
        }
    trace = traced.trace if isinstance(traced, ModelTrace) else traced
    numbers = trace if isinstance(trace, dict) else trace.as_dict()
    return json.dumps({**content, **numbers}, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def as_html(explanation: Explanation) -> list[str]:
    """Return the explanation as parts of a page."""
    parts = [heading(explanation.title, 1), *map(paragraph, explanation.introduction)]
    parts += [] if explanation.vectors is None else [_html_table(explanation.vectors)]
    for step in explanation.steps:
        parts += [heading(step.heading), *map(paragraph, step.text)]
        parts += [] if step.table is None else [_html_table(step.table)]
        parts += map(paragraph, step.after)
    return [*parts, *map(paragraph, explanation.ending)]


def _html_table(table: Table) -> str:
    kinds = [' class="number"' if column.numeric else "" for column in table.columns]
    head = "".join(f'<th scope="col">{escaped(column.heading)}</th>' for column in table.columns)
    rows = (
        "<tr>" + "".join(f"<td{kind}>{foreign(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in (*table.rows, *([table.total] if table.total else []))
    )
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def as_table(explanation: Explanation, width: int = 100) -> str:
    """Return the explanation for a terminal of `width` characters, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, markup=False, highlight=False, emoji=False)
    _write(console, explanation.title, "=" * min(width, len(explanation.title)), *explanation.introduction)
    if explanation.vectors is not None:
        console.print(_rich_table(explanation.vectors))
    for step in explanation.steps:
        _write(console, "", step.heading, "-" * len(step.heading), *step.text)
        if step.table is not None:
            console.print(_rich_table(step.table))
        _write(console, *step.after)
    _write(console, "", *explanation.ending)
    # cells are padded to the width of their column, also the last
    return "".join(line.rstrip() + "\n" for line in out.getvalue().removesuffix("\n").split("\n"))


def _write(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(Text(line))


def _rich_table(table: Table) -> RichTable:
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
