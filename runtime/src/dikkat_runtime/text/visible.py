"""Show text on a terminal with its control characters escaped, since others may have written it."""

import os
import sys

from dikkat_runtime.errors import msg
from dikkat_runtime.localization import localized

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# directions that reach beyond the text itself, and halves of characters, which no terminal can write
_HIDDEN = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_SHOWN = {code: ascii(chr(code))[1:-1] for code in (*_CONTROLS, *_HIDDEN)}
_SHOWN_IN_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\t\n"}


def visible(text: str) -> str:
    """Return a text, in the spoken language if it is a message, with what steers a terminal escaped, as `\\x1b`.

    Tab and line feed stay.
    """
    return localized(text).translate(_SHOWN_IN_LINES)


def one_visible_line(text: str) -> str:
    """Return a text as `visible` does, with tab and line feed escaped too."""
    return localized(text).translate(_SHOWN)


def say(text: str, *values: object) -> None:
    """Write a message, or a template and its values, to standard error: one visible line in the spoken language.

    Where nobody reads it, it is lost, and nothing else changes.
    """
    if sys.stderr is None:
        return
    try:
        print("dikkat:", one_visible_line(msg(text, *values)), file=sys.stderr, flush=True)
    except OSError:
        # or Python would try once more at the end, and change the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
