"""Read the texts that exports write: the programs and readmes next to a model, with fields in braces."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).with_name("texts")


def template(name: str) -> str:
    """Return the template in a file of the package."""
    return (_FOLDER / name).read_text(encoding="utf-8")
