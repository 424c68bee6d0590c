"""Foreign text on a terminal: what would steer it is shown, not obeyed."""

from __future__ import annotations

_SHOWN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_SHOWN |= dict.fromkeys(range(0x80, 0xA0), ord("·"))
# directions that reach beyond the text itself, and halves of characters, which no terminal can write
_SHOWN |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)), ord("·"))


def visible(text: str) -> str:
    """`text` with a sign for each control character (␛ for escape) but tabs and line ends, which stay."""
    return text.translate(_SHOWN)
