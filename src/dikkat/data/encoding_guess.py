"""Guess the encoding of a line that is not UTF-8, and name the command that converts its file."""

from __future__ import annotations

import re
import shlex

STANDARD_INPUT = "standard input"
"""What messages call text that is piped in, and so has no file to convert."""
_LETTERS_OF_1250 = re.compile(rb"[A-Za-z][\xb3\xb9\xbf\x9c\x9a\x9d\x9e\x9f][a-z\xe0-\xff]")
"""Polish, Czech and Slovak letters inside words, where Western text has a superscript or a quotation mark."""
_TURKISH, _ICELANDIC = b"\xfd\xfe\xf0\xdd\xde\xd0", b"\xe1\xe9\xed\xf3\xfa\xe6\xc1\xc9\xcd\xd3\xda\xc6"
"""Letters that are Turkish in windows-1254 and Icelandic in windows-1252, and those that only Icelandic has."""


def guess_encoding(raw: bytes) -> str:
    """Return the likely encoding of a line that is not valid UTF-8; empty where its bytes do not tell.

    Told apart are the Western, Central European, Turkish, Greek and Cyrillic ones of one byte a letter.
    """
    if any(letter != "\ufffd" and ord(letter) > 127 for letter in raw.decode("utf-8", "replace")):
        return ""  # most of it is UTF-8: a damaged place, not another encoding
    high = [byte for byte in raw if byte >= 0xC0]
    others = sum(0x80 <= byte < 0xC0 for byte in raw)
    if not high:
        return "windows-1252" if others else ""
    letters = len(high) + sum(bytes([byte]).isalpha() for byte in raw)
    if 2 * len(high) <= letters:
        return _of_latin_letters(raw)
    if 4 * others > len(high):
        return ""  # scripts of several bytes a character
    if 20 * sum(0xDC <= byte <= 0xDF for byte in high) > len(high):
        return "windows-1253"
    return "windows-1251" if 2 * sum(byte >= 0xE0 for byte in high) > len(high) else "koi8-r"


def _of_latin_letters(raw: bytes) -> str:
    if _LETTERS_OF_1250.search(raw):
        return "windows-1250"
    turkish, icelandic = (sum(byte in letters for byte in raw) for letters in (_TURKISH, _ICELANDIC))
    return "windows-1254" if turkish > icelandic else "windows-1252"


def conversion(raw: bytes, name: str) -> str:
    """Return the advice for the file `name`, or `STANDARD_INPUT`, in which the line `raw` is not valid UTF-8."""
    encoding = guess_encoding(raw)
    if not encoding:
        return "correct the line, or convert the file with iconv -f ENCODING -t UTF-8"
    if name == STANDARD_INPUT:
        return f"it reads like {encoding}; pipe it through: iconv -f {encoding} -t UTF-8"
    return f"it reads like {encoding}; convert it with: iconv -f {encoding} -t UTF-8 {shlex.quote(name)} > utf8.txt"
