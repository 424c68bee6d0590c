"""Requests for the translation of one piece of a line, and their results."""

from dataclasses import dataclass

from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.text.demanded import Demanded


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """A text to translate with its conditions; equal requests have equal translations."""

    text: str
    ids: tuple[int, ...]
    """Ids of the text, without an end mark."""
    prefix: str = ""
    """The beginning of the translation."""
    demands: tuple[Demanded, ...] = ()
    """Words that the translation must hold."""
    is_closed: bool = False
    """True if the last word of the prefix is whole."""

    def is_begun_by(self, text: str) -> bool:
        """Return whether a translation begins with the prefix."""
        behind = text[len(self.prefix) :]
        return text.startswith(self.prefix) and not (self.is_closed and behind[:1].isalnum())


@dataclass(frozen=True, slots=True)
class PieceResult:
    """A translation, and how it was decoded."""

    translation: Translation
    looped: bool = False
    """True if the first output repeated itself in a loop."""
    forced: bool = False
    """True if the search ran under constraints."""
    changed: bool = False
    """True if the translation is another one than without demands."""
    unmet: tuple[Demanded, ...] = ()
    """Demands that the translation still does not meet."""
