"""Control characters as something to read: a terminal shows them instead of obeying them."""

from __future__ import annotations

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_SHOWN = {code: repr(chr(code))[1:-1] for code in _CONTROLS}
_SHOWN_IN_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\t\n"}


def visible(text: str) -> str:
    """Escape every control character of `text` (C0, DEL, C1) but tab and line feed, as `\\x1b`."""
    return text.translate(_SHOWN_IN_LINES)


def one_visible_line(text: str) -> str:
    """Escape every control character of `text`, tab and line feed too."""
    return text.translate(_SHOWN)
