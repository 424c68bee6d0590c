"""Help of the commands in the spoken language: typer's own words, and those of the commands."""

from __future__ import annotations

import inspect
import re
from typing import Any

from dikkat_runtime.localization import LANGUAGES, language, translated

_WITH_FACTS = re.compile(
    r"(?P<help>.*?)(?:  )?\[(?P<facts>(?:default|env var|required|[^\]]*[<>]=?)[^\]]*)\]", re.DOTALL
)
"""The help of an option, and behind it in brackets its default, its range and whether it must be there."""


def localize_help(command: Any) -> None:
    """Let a command of typer, and all below it, tell of themselves in the spoken language."""
    if language() == LANGUAGES[0]:
        return
    if command.help:
        command.help = localized_paragraphs(command.help)
    context = command.context_class
    formatter = type("LocalizedFormatter", (_Localized, context.formatter_class), {})
    command.context_class = type("LocalizedContext", (context,), {"formatter_class": formatter})
    for below in getattr(command, "commands", {}).values():
        localize_help(below)


def localized_paragraphs(text: str) -> str:
    """Return a text in the spoken language, paragraph by paragraph, each in one line."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(translated(" ".join(paragraph.split())) for paragraph in paragraphs)


class _Localized:
    """Write the parts of a help page in the spoken language; the base of a formatter of click."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write how the command is called."""
        super().write_usage(prog, args, f"{translated(prefix or 'Usage:')} ")  # type: ignore[misc]

    def write_heading(self, heading: str) -> None:
        """Write what a list is of."""
        super().write_heading(translated(heading))  # type: ignore[misc]

    def write_dl(self, rows: list[tuple[str, str]], *arguments: Any, **options: Any) -> None:
        """Write names, and what is said of each."""
        said = [(name, _said(text)) for name, text in rows]
        super().write_dl(said, *arguments, **options)  # type: ignore[misc]


def _said(text: str) -> str:
    divided = _WITH_FACTS.fullmatch(text)
    if divided is None:
        return localized_paragraphs(text)
    facts = "; ".join(map(translated, divided["facts"].split("; ")))
    return "  ".join(filter(None, (localized_paragraphs(divided["help"]), f"[{facts}]")))
