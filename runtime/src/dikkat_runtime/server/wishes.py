"""How texts are to be translated, whatever interface asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.text.glossary import Glossary

Markup = Literal["text", "html", "xml"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asks for besides the translations."""

    markup: Markup = "text"
    structure: Structure = field(default_factory=Structure)
    """What is known of the elements, where the texts have tags."""
    sentences: bool = True
    """Whether a line is cut into sentences."""
    lines: bool = True
    """Whether a line break ends a sentence."""
    alternatives: int = 0
    glossary: Glossary | None = None
