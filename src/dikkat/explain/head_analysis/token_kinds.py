"""Recognise tokens that are no word, where attention often rests (Clark et al. 2019, section 3.2)."""

from __future__ import annotations

from dikkat.explain.sentence_maps import BEGIN, END


def is_special(token: str) -> bool:
    """Return whether a label is that of the begin or the end token."""
    return token in (BEGIN, END)


def is_punctuation(token: str) -> bool:
    """Return whether a label has signs, but no letter and no digit; "▁" is a space."""
    signs = token.replace("▁", " ").strip()
    return bool(signs) and not any(sign.isalnum() for sign in signs)
