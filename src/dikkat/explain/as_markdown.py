"""Write an explanation as GitHub Markdown."""

from __future__ import annotations

import re

from dikkat.explain.explanation import Explanation, Table


def as_markdown(explanation: Explanation) -> str:
    """Return the explanation with headings and tables; nothing that a user typed is read as markup."""
    blocks = [f"# {_escaped(explanation.title)}", *map(_escaped, explanation.introduction)]
    if explanation.vectors is not None:
        blocks.append(_table(explanation.vectors))
    for step in explanation.steps:
        blocks += [f"## {_escaped(step.heading)}", *map(_escaped, step.text)]
        if step.table is not None:
            blocks.append(_table(step.table))
        blocks += map(_escaped, step.after)
    blocks += map(_escaped, explanation.ending)
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell(column.heading) for column in table.columns], rule, *([_cell(c) for c in row] for row in table.rows)]
    if table.total:
        rows.append([f"**{_cell(cell)}**" if cell else "" for cell in table.total])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(text: str) -> str:
    return _escaped(text).replace("\n", "<br>")


def _escaped(text: str) -> str:
    # "]" only where it could end a link: the vectors stay readable
    return re.sub(r"([\\`*_<>|~&]|\](?=[(\[:]))", r"\\\1", text)
