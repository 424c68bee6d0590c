"""Create a matplotlib figure without global state, and write it whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.messages import msg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = (".png", ".svg")
_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which choose the forms of letters in Persian, Hindi and emoji."""


def check_format(path: Path) -> None:
    """Raise `UsageError` unless the suffix names a picture; called before the work, not after it."""
    if path.suffix.lower() not in _FORMATS:
        wanted = " or ".join(_FORMATS)
        raise UsageError("{path}: a picture is {wanted}, not {suffix}; rename it").fill(
            path, wanted, path.suffix or msg("a file without suffix")
        )


def printable(text: str, longest: int) -> str:
    """Return `text` with a dot for each control character, cut to `longest` characters."""
    shown = "".join(mark if mark.isprintable() or mark in _JOINERS else "·" for mark in text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of `size` inches."""
    # Not pyplot: it keeps figures and a display in global state, a server thread has neither.
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Draw the figure and write it, whole or not at all. Raises `DiskError` or `CannotCreateError`."""
    import matplotlib

    kind = path.suffix.lower().removeprefix(".")
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dikkat"}):  # equal data, equal file
        figure.savefig(content, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(path, content.getvalue())
