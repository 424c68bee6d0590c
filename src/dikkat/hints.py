"""Commands of this program as they are printed for copying: quoted for the shell."""

from __future__ import annotations

import shlex
from pathlib import Path


def command(*words: str | Path) -> str:
    """Return the line for the shell that calls `dikkat` with these `words`, whatever is in them.

    A path that begins with a dash would be read as an option; it gets `./` in front.
    """
    return " ".join(["dikkat", *map(_quoted, words)])


def piped(*words: str | Path, text: str = "") -> str:
    """Return the line for the shell that gives `text` (or … in its place) to the standard input of a command."""
    return f"echo {_quoted(text) if text else '…'} | {command(*words)}"


def _quoted(word: str | Path) -> str:
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    if text.isprintable():
        return shlex.quote(text)
    # control characters, and bytes that are not UTF-8, as bash, zsh and POSIX.1-2024 read them
    content = text.encode("utf-8", "surrogateescape")
    shown = "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in content)
    return f"$'{shown}'"
