"""Read a word that training never showed as the known word that a slip of the fingers makes it of (Damerau 1964)."""

from collections.abc import Mapping

from dikkat_runtime.text.casing import capitalized, lower
from dikkat_runtime.text.recasing import WORD

MIN_LETTERS = 4
MAX_UNKNOWN = 1 / 3
"""Largest share of unknown words in a text that is mended: one of another field has words of its own."""


class Speller:
    """Mends texts by the known words: in small letters with their usual forms, the most frequent first."""

    def __init__(self, forms: Mapping[str, str], language: str) -> None:
        self._forms, self._language = forms, language
        self._rank = {word: number for number, word in enumerate(forms)}
        self._letters = sorted({letter for word in forms for letter in word if letter.isalpha()})

    def mended(self, text: str) -> str:
        """Return a text whose unknown words are the most frequent known ones that one slip inside a word makes of them.

        A slip swaps two letters, leaves one out, adds one or takes another; the first letter stays. Words with a
        capital inside the text may be names, and stay.
        """
        if not self._rank:
            return text
        words = [(match, lower(match[0], self._language)) for match in WORD.finditer(text)]
        unknown = [(match, small) for match, small in words if small not in self._rank]
        if len(unknown) > MAX_UNKNOWN * len(words):
            return text
        parts, position = list[str](), 0
        for match, small in unknown:
            is_first = match.start() == words[0][0].start() and match[0] == capitalized(small, self._language)
            options = self._meant(small) if match[0] == small or is_first else set()
            if options:
                form = self._forms[min(options, key=self._rank.__getitem__)]
                parts += [text[position : match.start()], capitalized(form, self._language) if is_first else form]
                position = match.end()
        return "".join([*parts, text[position:]])

    def _meant(self, word: str) -> set[str]:
        """Return the known words that are one slip away."""
        if len(word) < MIN_LETTERS:
            return set()
        inner = range(1, len(word) - 1)
        away = {word[:at] + word[at + 1 :] for at in inner}
        away |= {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner}
        away |= {word[:at] + letter + word[at + 1 :] for at in inner for letter in self._letters}
        away |= {word[:at] + letter + word[at:] for at in (*inner, len(word) - 1) for letter in self._letters}
        return away & self._rank.keys()
