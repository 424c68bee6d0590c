"""The lines that the cards of all kinds of models share."""

from __future__ import annotations

from typing import Any


def making(settings: dict[str, Any]) -> list[str]:
    """The lines of a card that say how to make the run again; an older dikkat did not note its command."""
    if command := settings.get("command"):
        return ["", "To make it again:", "", f"    {command}"]
    return ["", "The command that made it was not noted."]
