"""Tell the charsets that a file of text may declare from the other codecs that Python knows."""

from __future__ import annotations

import codecs

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import shown

_NO_CHARSETS = frozenset(("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"))
"""Codecs of Python from text to bytes that are not a charset of any file."""


def require_charset(charset: str, name: str) -> str:
    """Return the charset that the file `name` declares. Raises `DataError` for one that is unknown, or none of text."""
    try:
        # what is not an encoding of text, such as base64, refuses an empty text too
        "".encode(charset)
        is_known = codecs.lookup(charset).name not in _NO_CHARSETS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        raise DataError(
            '{name}: its charset "{charset}" is unknown or not for text; correct what the file declares, or '
            "convert it to UTF-8"
        ).fill(name, shown(charset))
    return charset
