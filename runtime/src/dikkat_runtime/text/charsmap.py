"""Check the map of characters that a SentencePiece model normalises text by, before a library walks through it.

The map is a double-array trie (Aoe 1989, as in the library Darts) over the bytes of what is replaced, and a pool of
replacements that end in a zero byte. A trie that points outside of itself would abort the process.
"""

import base64
import binascii

import numpy as np
from numpy.typing import NDArray

_MAX_SIZE = 1 << 23
"""Bytes; the map of the normalisation NFKC takes 240,000."""
_MAX_REPLACEMENT_LENGTH = 64
"""Bytes; the longest of NFKC takes 33."""
_LEAF = np.uint32(1 << 31)
_WIDE = np.uint32(1 << 9)
_HAS_LEAF = np.uint32(1 << 8)


def check_charsmap(content: bytes) -> None:
    """Check a map of characters. Raises `ValueError` with what is wrong."""
    if not 4 <= len(content) <= _MAX_SIZE:
        raise ValueError(f"a map of characters of {len(content):,} bytes")
    size = int.from_bytes(content[:4], "little")
    if size % 4 or not 4 <= size <= len(content) - 4:
        raise ValueError("a map of characters that does not fit into its file")
    units = np.frombuffer(content[4 : 4 + size], "<u4")
    _check_trie(units, _replacement_starts(content[4 + size :]))


def is_charsmap(value: object) -> bool:
    """Return whether a value of a tokenizer.json is a map of characters in base64 that is safe to walk through."""
    if not isinstance(value, str) or len(value) > 2 * _MAX_SIZE:
        return False
    try:
        check_charsmap(base64.b64decode(value, validate=True))
    except (ValueError, binascii.Error):
        return False
    return True


def _replacement_starts(pool: bytes) -> NDArray[np.bool_]:
    """Where a replacement may begin: at each character of the pool, the last of which is a zero."""
    if not pool.endswith(b"\0"):
        raise ValueError("a map of characters whose replacements do not end")
    pool.decode("utf-8")
    if max(map(len, pool.split(b"\0"))) > _MAX_REPLACEMENT_LENGTH:
        raise ValueError(f"a map of characters with a replacement of more than {_MAX_REPLACEMENT_LENGTH} bytes")
    return np.asarray(np.frombuffer(pool, np.uint8) & 0xC0 != 0x80)


def _check_trie(units: NDArray[np.uint32], starts: NDArray[np.bool_]) -> None:
    """Every step from a unit that a byte can lead to stays inside, and every value is the start of a replacement."""
    inner = units & _LEAF == 0
    offsets = (units >> np.uint32(10)) << ((units & _WIDE) >> np.uint32(6))
    targets = np.arange(len(units), dtype=np.int64) ^ offsets.astype(np.int64)
    if (targets[inner] | 0xFF).max(initial=0) >= len(units):
        raise ValueError("a map of characters whose trie leads outside")
    values = units[targets[inner & (units & _HAS_LEAF != 0)]] & ~_LEAF
    if values.max(initial=0) >= len(starts) or not starts[values].all():
        raise ValueError("a map of characters with a value that is not a replacement")
