"""Options of a translation that a client chooses, for every interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.text.glossary import Glossary

Markup = Literal["text", "html", "xml"]


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options of a translation that a client chooses."""

    markup: Markup = "text"
    structure: Structure = field(default_factory=Structure)
    """The structure of the elements, where the texts have tags."""
    sentences: bool = True
    """True if a line is cut into sentences."""
    lines: bool = True
    """True if a line break ends a sentence."""
    alternatives: int = 0
    glossary: Glossary | None = None
