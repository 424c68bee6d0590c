"""Label tokens for people: whole characters instead of the bytes of which byte-level tokens are made.

A token that holds a part of a character is shown as that character with the part in brackets: the two tokens of "é"
are "é(1/2)" and "é(2/2)". Bytes that are not characters, or not yet, are shown as U+FFFD.
"""

import re
from collections.abc import Sequence
from itertools import groupby

_BYTE = re.compile(r"\\x([0-9a-f]{2})")
_PART = re.compile(
    r"\\x(?P<byte>[0-9a-f]{2})|(?P<character>.)\((?P<first>[1-4])(?:-(?P<last>[1-4]))?/(?P<size>[2-4])\)", re.DOTALL
)
_UNKNOWN = "\ufffd"


def whole_characters(labels: Sequence[str]) -> list[str]:
    """Return the labels of a sequence of tokens with the bytes of `Tokenizer.pieces` ("\\xc3") as characters."""
    if not any("\\x" in label for label in labels):
        return list(labels)
    # text or one byte, and the index of its label
    parts: list[tuple[str | int, int]] = []
    for number, label in enumerate(labels):
        for index, part in enumerate(_BYTE.split(label)):
            if part:
                parts.append((int(part, 16) if index % 2 else part, number))
    shown = [""] * len(labels)
    start = 0
    while start < len(parts):
        first, number = parts[start]
        if isinstance(first, str):
            shown[number] += first
            start += 1
            continue
        character, end = _next_character(parts, start)
        owners = [owner for _, owner in parts[start:end]]
        for owner, group in groupby(range(len(owners)), key=owners.__getitem__):
            shown[owner] += character if character == _UNKNOWN else _marked(character, list(group), len(owners))
        start = end
    return shown


def bytes_of(label: str) -> bytes:
    """Return the bytes that a label of `whole_characters`, or one of `Tokenizer.pieces`, stands for."""
    raw, end = b"", 0
    for match in _PART.finditer(label):
        raw += label[end : match.start()].encode("utf-8", "surrogatepass") + _part(match)
        end = match.end()
    return raw + label[end:].encode("utf-8", "surrogatepass")


def _part(match: re.Match[str]) -> bytes:
    if match["byte"]:
        return bytes.fromhex(match["byte"])
    whole = match["character"].encode("utf-8", "surrogatepass")
    if len(whole) != int(match["size"]):
        return match[0].encode("utf-8", "surrogatepass")
    return whole[int(match["first"]) - 1 : int(match["last"] or match["first"])]


def _next_character(parts: Sequence[tuple[str | int, int]], start: int) -> tuple[str, int]:
    """Return the character whose first byte is the part at `start`, and the end of its bytes."""
    raw = b""
    for byte, _ in parts[start : start + 4]:
        if not isinstance(byte, int) or (raw and byte & 0xC0 != 0x80):
            break
        raw += bytes([byte])
        try:
            return raw.decode("utf-8"), start + len(raw)
        except UnicodeDecodeError:
            continue
    return _UNKNOWN, start + len(raw)


def _marked(character: str, indices: Sequence[int], size: int) -> str:
    first, last = indices[0] + 1, indices[-1] + 1
    return f"{character}({first}/{size})" if first == last else f"{character}({first}-{last}/{size})"
