"""Parse JSON of a file that anybody may have written, and refuse what our own programs would never write.

Refused are a key given twice, NaN and infinities, numbers out of range, half of a surrogate pair, and deep nesting;
each would be read differently by another parser, or fail far from the file.
"""

import json
import math
from collections import Counter
from typing import Any

MAX_DEPTH = 64
"""Lists and objects inside each other; our own files have at most eight."""
_NESTED = {list, dict}
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(content: bytes) -> Any:
    """Return the value of one JSON document in UTF-8. Raises `ValueError` with the reason."""
    try:
        value = json.loads(
            content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
        if _may_be_deep(content) and _depth(value) > MAX_DEPTH:
            raise ValueError("is nested too deeply")
        if b"\\u" in content:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return value


def _may_be_deep(content: bytes) -> bool:
    """Return False where the brackets, those in texts too, close each other within `MAX_DEPTH` levels."""
    brackets = content.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _depth(value: Any) -> int:
    """Return how many lists and objects are inside each other, at most one more than `MAX_DEPTH`."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [
            part
            for whole in level
            if type(whole) in _NESTED
            for part in (whole.values() if type(whole) is dict else whole)
            if type(part) in _NESTED
        ]
        depth += 1
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in counts if counts[name] > 1)
        raise ValueError(f"the key {twice[:40]!r} stands in it twice")
    return members


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number
