"""Checks that a text is in the language of its side, by the words of the corpus and by py3langid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dikkat.data.faults.kinds import Fault
from dikkat.data.faults.lexicon import Lexicon
from dikkat.data.faults.word_languages import WordLanguages
from dikkat.data.language_guess import guess_language

_FEWEST_WORDS = 3
_OTHER_SIDE = 1.0
"""Logarithm a word from which on a text reads like the other side."""
_NEITHER = 0.3
"""Up to which it says nothing."""
_SAMPLE = 2_000


@dataclass(frozen=True, slots=True)
class SideLanguages:
    """The languages of source and target; a side whose language is not known is judged by the words of the corpus."""

    codes: tuple[str, str]
    words: tuple[WordLanguages, WordLanguages]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], codes: tuple[str, str]) -> SideLanguages:
        """Return the languages that `codes` names, else those that the pairs seem to be in."""
        step = max(1, len(pairs) // _SAMPLE)
        texts_by_side = ([pair[side] for pair in pairs[::step]] for side in (0, 1))
        guessed = [code or guess_language(texts) for code, texts in zip(codes, texts_by_side, strict=True)]
        notes = [
            f"the language of the {name} is not clear; say it with --{name}-language"
            for name, code in zip(("source", "target"), guessed, strict=True)
            if not code
        ]
        return cls((guessed[0], guessed[1]), (WordLanguages(guessed[0]), WordLanguages(guessed[1])), notes)

    def fault(self, words: tuple[list[str], list[str]], lexicon: Lexicon) -> Fault:
        """Return `SWAPPED` for swapped sides, `LANGUAGE` for a side in a foreign language, else `NONE`."""
        source, target = lexicon.odds(words[0]), lexicon.odds(words[1])
        is_likely = target - source > _OTHER_SIDE and max(-source, target) > _OTHER_SIDE
        if is_likely and source < _NEITHER and target > -_NEITHER and all(words):
            return Fault.SWAPPED
        for side, reads_like_other in enumerate((source < -_OTHER_SIDE, target > _OTHER_SIDE)):
            enough = len(words[side]) >= _FEWEST_WORDS
            if enough and (reads_like_other or self.words[side].is_foreign(words[side])):
                return Fault.LANGUAGE
        return Fault.NONE
