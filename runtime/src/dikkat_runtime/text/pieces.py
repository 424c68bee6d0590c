"""The shape that SentencePiece gives a text: words that begin with "▁", cut into the most probable pieces (Kudo 2018).

A vocabulary may hold the pieces of several tokenizers, as that of a translator whose two sides were cut by a model
each. `hidden` entries are known by their ids and never found in a text.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, decoders, pre_tokenizers

SPACE = "▁"
HIDDEN = "\uffff"
"""Begins an entry that is never found in a text, since no character has this number."""
STAND_IN = "\ufdd0"
"""Stands for a "▁" of the text itself while it is cut, since no character has this number."""
REPEATED_SPACES = " {2,}"
"""The regular expression of what SentencePiece reads as one space."""
TYPED_ENTRY = r"<(?=(?:pad|bos|eos|unk|0x[0-9A-F]{2})>)"
"""Cuts a hand-typed "<eos>" or "<0x41>" in two, so that no vocabulary looks it up as the end or as a byte."""
_EACH_BYTE = "dikkat-each-byte"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def hidden(piece: str) -> str:
    """Return the entry of a piece that is never found in a text."""
    return HIDDEN + piece


def piece_bytes(entry: str) -> bytes:
    """Return the bytes of UTF-8 that an entry adds to a text, in which its "▁" is a space."""
    piece = entry.removeprefix(HIDDEN)
    byte = _BYTE.fullmatch(piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace(SPACE, " ").encode()


def text_of_bytes(raw: bytes) -> str:
    """Return the text of bytes of UTF-8, with a U+FFFD for each one that is part of no character, as SentencePiece."""
    return raw.decode("utf-8", errors=_EACH_BYTE)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_EACH_BYTE, _replaced)


def piece_label(entry: str) -> str:
    """Return the piece of an entry as people see it; a byte shows as "\\xc4"."""
    piece = entry.removeprefix(HIDDEN)
    byte = _BYTE.fullmatch(piece)
    return rf"\x{byte[1].lower()}" if byte else piece


def byte_ids(settings: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of the entries that stand for a single byte each in a tokenizer of pieces with this JSON."""
    if not settings["model"].get("byte_fallback"):
        return frozenset()
    vocabulary = settings["model"]["vocab"]
    return frozenset(number for number, (entry, _) in enumerate(vocabulary) if _BYTE.fullmatch(entry))


def is_lossless(settings: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer of pieces, with this JSON, leaves a text as it is and has a byte for each unknown."""
    steps = (settings["normalizer"] or {}).get("normalizers", [])
    return bool(settings["model"].get("byte_fallback")) and [step["type"] for step in steps] == ["Prepend"]


def with_typed_spaces(text: str, ids: Sequence[int], stand_in: Sequence[int], typed: Sequence[int]) -> list[int]:
    """Return the ids of a text that was cut with `STAND_IN` in place of "▁", with the bytes of each "▁" again.

    `stand_in` and `typed` are the ids of the bytes of the two; the text itself may hold both.
    """
    restored, start = list(ids), 0
    for character in text:
        if character in (SPACE, STAND_IN):
            # bytes of UTF-8 are never those of another character, whatever stands before them
            while restored[start : start + len(stand_in)] != stand_in:
                start += 1
            if character == SPACE:
                restored[start : start + len(stand_in)] = typed
            start += len(stand_in)
    return restored


def piece_pre_tokenizer(*, begins_with_space: bool = True, cuts_at_spaces: bool = True) -> Any:
    """Return what cuts a text at spaces; with `begins_with_space` its first word too begins with "▁".

    `cuts_at_spaces` is False for a vocabulary with pieces of several words.
    """
    scheme = "always" if begins_with_space else "never"
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=cuts_at_spaces),
            pre_tokenizers.Split(Regex(TYPED_ENTRY), behavior="isolated"),
        ]
    )


def piece_decoder(*, begins_with_space: bool = True) -> Any:
    """Return what joins entries to a text, without the space before its first word."""
    parts: list[Any] = [
        decoders.Replace(HIDDEN, ""),
        decoders.Replace(SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    return decoders.Sequence([*parts, decoders.Strip(" ", left=1, right=0)] if begins_with_space else parts)


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_PIECE, QWEN_PIECE = f"{_CONTRACTIONS}\\p{{N}}{{1,3}}{_REST}", f"{_CONTRACTIONS}\\p{{N}}{_REST}"
"""What the byte-level tokenizers of Llama 3 and of Qwen 2 and 3 cut a text into, before merges."""
