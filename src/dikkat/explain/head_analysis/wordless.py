"""Tokens that are no word: where attention goes when there is nothing to look at (Clark et al. 2019, section 3.2)."""

from __future__ import annotations

from dikkat.explain.sentence_maps import BEGIN, END


def is_mark(token: str) -> bool:
    """Whether a label is that of the begin or the end mark."""
    return token in (BEGIN, END)


def is_punctuation(token: str) -> bool:
    """Whether a label has signs, but no letter and no digit; "▁" is a space."""
    signs = token.replace("▁", " ").strip()
    return bool(signs) and not any(sign.isalnum() for sign in signs)
