"""Notebooks made from pages: text becomes Markdown cells, python blocks code cells with the output shown below them.

`python -m tests.docs.notebooks` writes those of docs/seeds anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "seeds"
PAGES = ("000", "001", "002", "003", "004")
LANGUAGES = ("en", "tr")
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def page_of(name: str, language: str) -> Path:
    """Return the path of a page in a language."""
    return FOLDER / (f"{name}.md" if language == "en" else f"{name}.{language}.md")


def notebook_of(page: Path) -> str:
    """Return the notebook of a page as JSON text, in format 4.5."""
    text, cells, end = page.read_text(encoding="utf-8"), list[dict[str, Any]](), 0
    for block in _BLOCK.finditer(text):
        cells += _markdown(text[end : block.start()], len(cells))
        cells.append(_code(block[1], block[2], len(cells)))
        end = block.end()
    cells += _markdown(text[end:], len(cells))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _markdown(text: str, number: int) -> list[dict[str, Any]]:
    if not text.strip():
        return []
    return [{"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": _lines(text.strip())}]


def _code(text: str, printed: str | None, number: int) -> dict[str, Any]:
    outputs = [{"name": "stdout", "output_type": "stream", "text": _lines(printed)}] if printed else []
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"cell-{number}",
        "metadata": {},
        "outputs": outputs,
        "source": _lines(text.rstrip("\n")),
    }


def _lines(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")[:-1]] + [text.split("\n")[-1]]


if __name__ == "__main__":
    for name in PAGES:
        for language in LANGUAGES:
            page = page_of(name, language)
            page.with_suffix(".ipynb").write_text(notebook_of(page), encoding="utf-8")
