"""Lines that the model cards of all kinds of models share."""

from __future__ import annotations

from typing import Any


def making(settings: dict[str, Any]) -> list[str]:
    """Return the lines of a card that say how to make the run again.

    The command is missing from the settings of runs that were made before it was recorded.
    """
    if command := settings.get("command"):
        return ["", "To make it again:", "", f"    {command}"]
    return ["", "The command that made it was not noted."]
