"""Write SVG as plain strings: shapes, escaped text, and an estimate of text widths."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence

FONT = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif"
"""Every text is measured as if in the first font, the widest of them."""

_NARROW = frozenset("fijlrtI.,:;'|!()[]/ -·")
_WIDE = frozenset("mwMW@%×→+=√…—")


def escaped(text: str) -> str:
    """Return `text` escaped for HTML and XML, in quotes too.

    Characters that XML forbids, controls and lone surrogates become "·".
    """
    return html.escape("".join(" " if mark in "\t\n" else "·" if _is_forbidden(mark) else mark for mark in text))


def _is_forbidden(mark: str) -> bool:
    return mark in "\ufffe\uffff" or unicodedata.category(mark) in ("Cc", "Cs")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return an upper bound of the width of a line of Latin text in `FONT`, in the unit of `size`."""
    ems = sum(0.42 if mark in _NARROW else 0.99 if mark in _WIDE else 0.79 if mark.isupper() else 0.65 for mark in text)
    return ems * size * (1.12 if bold else 1.0)


def clipped(text: str, longest: int) -> str:
    """Return `text`, or its beginning and "…", in at most `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element; `content` is SVG already.

    An underscore in the name of an attribute becomes a hyphen; at its end it is dropped.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_number(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    """Return a line of text with its baseline at `y`."""
    return element("text", escaped(content), x=x, y=y, **attributes)


def path(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    """Return straight lines through `points`."""
    return element("path", d="M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points), **attributes)


def document(box: tuple[float, float, float, float], parts: Iterable[str], title: str, **attributes: object) -> str:
    """Return a whole drawing: `box` is left, top, width and height; `title` is read by screen readers."""
    attributes |= {"xmlns": "http://www.w3.org/2000/svg", "viewBox": " ".join(map(_number, box)), "role": "img"}
    return element("svg", element("title", escaped(title)) + "".join(parts), **attributes)


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
