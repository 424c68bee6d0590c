"""Random changes of a file, the same for the same seed."""

from __future__ import annotations

import random
import re

LETTERS = ["é", "ş", "W", "ı"]
PIECES = ["\n", "\n\n", " word ", " ", ". ", ", ", " 5 ", "  ", "\t", "! ", " 日本 ", " 🙂 ", "\r\n", " &amp; "]
"""What is put in between two letters, and beside white space: text, and what is legal nearly everywhere."""


def mutated(text: str, seed: int) -> str:
    """A file with one to three changes: pieces put in, lines twice, away or in other places."""
    generator = random.Random(seed)
    for _ in range(generator.randint(1, 3)):
        kind = generator.randrange(6)
        if kind < 4:
            pattern, pieces = (r"(?<=[a-z])(?=[a-z])", LETTERS) if kind < 2 else (r"(?<=\s)", PIECES)
            indices = [match.start() for match in re.finditer(pattern, text)] or [0]
            position = generator.choice(indices)
            text = text[:position] + generator.choice(pieces) + text[position:]
            continue
        lines = text.split("\n")
        number = generator.randrange(len(lines))
        if kind == 4:
            lines.insert(generator.randrange(len(lines)), lines[number])
        elif len(lines) > 1:
            del lines[number]
        text = "\n".join(lines)
    return text


def broken(data: bytes, seed: int) -> bytes:
    """A file with one to six bytes or stretches of bytes changed, gone or doubled, whatever comes of it."""
    generator = random.Random(seed)
    content = bytearray(data)
    for _ in range(generator.randint(1, 6)):
        start = generator.randrange(len(content) + 1)
        end = min(len(content), start + generator.randint(1, 30))
        kind = generator.randrange(4)
        if kind == 0:
            del content[start:end]
        elif kind == 1:
            content[start:start] = content[start:end]
        elif kind == 2:
            content[start:start] = generator.choice(
                [b"<", b">", b'"', b"&", b"\\", b"%s", b"{x}", b"</b>", b"\xff", b"\0"]
            )
        elif start < len(content):
            content[start] = generator.randrange(256)
    return bytes(content)
