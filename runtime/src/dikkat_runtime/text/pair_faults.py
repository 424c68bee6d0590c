"""Faults of a text and its translation: a copy, other placeholders, more sentences, other lengths."""

import re
from collections import Counter

from dikkat_runtime.text.placeholders import spans

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7af]")
_UNSPACED = re.compile("[\u0e01-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]")
"""Thai and Lao, Tibetan, Burmese, Khmer."""
_FIRST = "\u0e01"
"""First character of these scripts."""

HAN_WIDTH, SYLLABLE_WIDTH = 3, 2
"""Letters that carry as much as a character of Han, and as one of kana or Hangul. They are rounded from the lengths of
translations: 10 characters of Chinese are about 30 letters of English."""
_PER_WORD = ((_HAN, 2), (_KANA, 3), (_UNSPACED, 4))
"""How many characters of a script without spaces are about a word."""


def num_words(text: str) -> int:
    """Return the number of words of a text, in scripts without spaces estimated from the characters."""
    words = len(text.split())
    if not text or max(text) < _FIRST:
        return words
    return max(words, round(sum(len(script.findall(text)) / per_word for script, per_word in _PER_WORD)))


def width(text: str) -> int:
    """Return the length of a text in characters, where one that carries more counts as several."""
    length = len(text)
    if not text or max(text) < _FIRST:
        return length
    syllables = len(_KANA.findall(text)) + len(_HANGUL.findall(text))
    return length + (HAN_WIDTH - 1) * len(_HAN.findall(text)) + (SYLLABLE_WIDTH - 1) * syllables


COPY_WORDS = 3
"""Words from which on equal sides are taken for an untranslated line; shorter ones are names and the like."""
RATIO, _SLACK = 2.8, 6
"""How much longer a side may be, and characters that a short text may be longer without a reason."""
SENTENCES_FROM = 2
_ORDER = re.compile(r"(?<=^%)\d+\$")
_ENDS = re.compile("[.!?…。！？؟।]+[\"'”’»)\\]]*(?:\\s+|$|(?<=[。！？]))")


def is_copy(source: str, target: str) -> bool:
    """Return whether a text of several words stands on both sides."""
    if abs(len(source) - len(target)) > 2 or source[:1].casefold() != target[:1].casefold():
        return False
    return source.casefold().rstrip(".!?… ") == target.casefold().rstrip(".!?… ") and num_words(source) >= COPY_WORDS


def placeholders_differ(source: str, target: str) -> bool:
    """Return whether placeholders and addresses on one side are not those on the other."""
    if not any(sign in source or sign in target for sign in "%{@"):
        return False
    ours, theirs = (
        Counter(_ORDER.sub("", mark) for kind, mark in spans(text).elements() if kind in ("placeholder", "e-mail"))
        for text in (source, target)
    )
    return ours != theirs


def sentences_differ(source: str, target: str) -> bool:
    """Return whether one side holds so many sentences that the other cannot be all of them."""
    ours, theirs = len(_ENDS.findall(source.strip())), len(_ENDS.findall(target.strip()))
    fewer, more = sorted((max(ours, 1), max(theirs, 1)))
    if more < SENTENCES_FROM or more == fewer:
        return False
    longer, shorter = (source, target) if ours > theirs else (target, source)
    return width(longer) > 1.35 * (width(shorter) + 4)


def ratio(source: str, target: str) -> float:
    """Divide the width of the longer side by that of the shorter one plus a slack of a few characters."""
    shorter, longer = sorted((width(source), width(target)))
    return longer / (shorter + _SLACK)
