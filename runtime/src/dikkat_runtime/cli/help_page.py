"""Write the help of a command: how it is called, what it does, and tables of what may be typed."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence

from dikkat_runtime.localization import translated

MAX_WIDTH = 80
_MAX_NAME = 30
"""Widest first column; what is wider gets a line of its own."""

Rows = Sequence[tuple[str, str]]


def help_page(usage: str, text: str, tables: Mapping[str, Rows]) -> str:
    """Return the help; `text` and the headings of `tables` are turned into the spoken language, the rows are spoken."""
    width = max(40, min(MAX_WIDTH, shutil.get_terminal_size().columns)) - 2
    parts = [textwrap.fill(f"{translated('Usage:')} {usage}", width + 2, subsequent_indent="    ")]
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n[ \t]*+\n", text) if paragraph.strip()]
    parts += [
        textwrap.fill(translated(paragraph), width, initial_indent="  ", subsequent_indent="  ")
        for paragraph in paragraphs
    ]
    parts += [f"{translated(heading)}:\n{_table(rows, width)}" for heading, rows in tables.items() if rows]
    return "\n\n".join(parts) + "\n"


def _table(rows: Rows, width: int) -> str:
    first = min(_MAX_NAME, max(len(name) for name, _ in rows))
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - first - 4) or [""]
        if len(name) > first:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:{first}}  {wrapped[0]}".rstrip())
        lines += [f"{'':{first + 4}}{line}" for line in wrapped[1:]]
    return "\n".join(lines)
