"""Lines that the model cards of all kinds of models share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def training_facts(settings: dict[str, Any]) -> list[str]:
    """Return the lines of a card that say how to make the run again.

    The command is missing from the settings of runs that were made before it was recorded.
    """
    if command := settings.get("command"):
        return ["", "To make it again:", "", f"    {command}"]
    return ["", "The command that made it was not noted."]


def left_out(source: dict[str, Any]) -> str:
    """Return how many examples were left out of the data and why, in words; "none" where none was."""
    return ", ".join(f"{count:,} {reason}" for reason, count in source["left_out"].items()) or "none"


def foreign_validations(numbers: Sequence[int]) -> list[str]:
    """Return the lines of a card that name validations measured under other settings; none without `numbers`."""
    if not numbers:
        return []
    listed = ", ".join(map(str, numbers))
    return ["", f"Validations measured under other settings than those in config.json: {listed}."]
