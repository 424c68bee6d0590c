"""Count words and lengths of text in scripts without spaces between words, or with much in one character."""

from __future__ import annotations

import re

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
_HAN_PER_WORD, _KANA_PER_WORD, _UNSPACED_PER_WORD = 2, 3, 4


def num_words(text: str) -> int:
    """Return the number of words of a text, in scripts without spaces estimated from the characters."""
    words = len(text.split())
    if not text or max(text) < _FIRST:
        return words
    counts = (
        (len(_HAN.findall(text)), _HAN_PER_WORD),
        (len(_KANA.findall(text)), _KANA_PER_WORD),
        (len(_UNSPACED.findall(text)), _UNSPACED_PER_WORD),
    )
    return max(words, round(sum(count / per_word for count, per_word in counts)))


def width(text: str) -> int:
    """Return the length of a text in characters, where one that carries more counts as several."""
    length = len(text)
    if not text or max(text) < _FIRST:
        return length
    syllables = len(_KANA.findall(text)) + len(_HANGUL.findall(text))
    return length + (HAN_WIDTH - 1) * len(_HAN.findall(text)) + (SYLLABLE_WIDTH - 1) * syllables
