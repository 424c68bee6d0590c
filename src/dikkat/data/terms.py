"""Copies of training pairs with terms written after their source words, so that a translator learns to take them.

A term is a word of the source, or two, with what the aligned words of the target are (Dinu et al. 2019), in Turkish
often without suffixes, for the model to inflect (Bergmanis and Pinnis 2021). Some are words that the pair has not,
put into both sides: they must be copied, however rare.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from dikkat.data.pairs import Pair
from dikkat.data.word_alignment import WordAligner
from dikkat_runtime.text.casing import capitalized, lower
from dikkat_runtime.text.glossary import TERM_START, with_terms
from dikkat_runtime.text.suffixes import are_suffixes, takes_suffixes, with_suffixes_of

_WORD = re.compile(r"[^\W\d_]+")
CHOSEN = 1 / 4
"""Share of the linked words of a copy that become terms; one at least does."""
JOINED = 1 / 4
"""Share of the terms that are of two words, where the next ones are linked, too."""
FOREIGN = 3 / 4
"""Share of the terms whose translation is another word."""
KNOWN = 1 / 4
"""Share of these that are words of the language, not two halves."""
COMMON = 0.1
"""Share of the sentences that hold a word from which on it is too common to be a term, as articles are."""
MIN_LETTERS = 3
MAX_SAMPLE = 20_000
"""About how many pairs the translations of words are learned from, and which words there are."""

_Span = tuple[int, int]


class TermWriter:
    """Writes terms into pairs of one language pair."""

    def __init__(self, pairs: Sequence[Pair], language: str) -> None:
        """Learn from `pairs` which words translate which; `language` is that of the target."""
        self._language = language
        sample = list(islice(pairs, 0, None, max(1, len(pairs) // MAX_SAMPLE)))
        self._aligner = WordAligner.fit((_words(pair.source), _words(pair.target)) for pair in sample)
        self._inner = Counter[str]()
        """How often words stand after the first of a target."""
        for pair in sample:
            self._inner.update(match[0] for match in list(_WORD.finditer(pair.target))[1:])
        self._forms = [word for word in sorted(self._inner) if len(word) >= MIN_LETTERS]

    def copy(self, pair: Pair, chance: random.Random) -> Pair | None:
        """Return a pair with terms, None where none of its words are linked."""
        sources, targets = list(_WORD.finditer(pair.source)), list(_WORD.finditer(pair.target))
        if TERM_START in pair.source or not self._forms:
            return None
        linked = {
            row: column
            for row, column in self._aligner.links(_words(pair.source), _words(pair.target))
            if len(sources[row][0]) >= MIN_LETTERS and self._aligner.share(sources[row][0].lower()) < COMMON
        }
        if not linked:
            return None
        chosen = [row for row in linked if chance.random() < CHOSEN] or [chance.choice(list(linked))]
        terms, changes = list[tuple[int, int, str]](), list[tuple[_Span, str]]()
        free_from = 0
        for row in chosen:
            if row < free_from:
                continue
            column = linked[row]
            is_joined = linked.get(row + 1) == column + 1 and chance.random() < JOINED
            free_from = row + 1 + is_joined
            first, last = targets[column], targets[column + is_joined]
            written = pair.target[first.start() : last.end()]
            form, inflected = self._form(written, column == 0, chance)
            if inflected != written:
                changes.append(((first.start(), last.end()), inflected))
            terms.append((sources[row].start(), sources[free_from - 1].end(), form))
        target = pair.target
        for (start, end), inflected in sorted(changes, reverse=True):
            target = target[:start] + inflected + target[end:]
        return Pair(with_terms(pair.source, terms), target, pair.line)

    def _form(self, written: str, is_first: bool, chance: random.Random) -> tuple[str, str]:
        """Return the term for words of a target, and what stands there: it may be another word, and has suffixes."""
        usual = self._usual(written) if is_first else written
        stem = self._stem(usual) if takes_suffixes(self._language) else usual
        if chance.random() >= FOREIGN:
            return stem, written
        form = self._foreign(usual, chance)
        inflected = form
        if stem != usual:
            inflected = with_suffixes_of(form, usual, lower(stem, self._language))[0]
        return form, capitalized(inflected, self._language) if is_first else inflected

    def _usual(self, word: str) -> str:
        """Return a first word as it is written inside a sentence."""
        return max((lower(word, self._language), word), key=lambda form: self._inner[form])

    def _stem(self, word: str) -> str:
        """Return the shortest known word with nothing but Turkish suffixes after it, which may be the word itself."""
        ends = range(MIN_LETTERS, len(word))
        return next((word[:end] for end in ends if word[:end] in self._inner and are_suffixes(word[end:])), word)

    def _foreign(self, word: str, chance: random.Random) -> str:
        """Return a word of the language, or two halves of words, that begins with a vowel or a consonant as `word`."""
        is_vowel = _begins_with_vowel(word)
        while True:
            one, other = chance.choice(self._forms), chance.choice(self._forms)
            # a word that there is not has several tokens, each of which must be copied
            form = one if chance.random() < KNOWN else one[: len(one) // 2 + 1] + other[len(other) // 2 :].lower()
            if _begins_with_vowel(form) == is_vowel or chance.random() < 1 / 8:
                return form


def pairs_with_terms(pairs: Sequence[Pair], share: float, language: str, seed: int) -> Iterator[Pair]:
    """Yield copies of a share of `pairs` with terms; equal arguments give equal copies."""
    if not share or not pairs:
        return
    writer, chance = TermWriter(pairs, language), random.Random(f"terms {seed}")
    for pair in pairs:
        if chance.random() < share and (copy := writer.copy(pair, chance)) is not None:
            yield copy


def _words(text: str) -> list[str]:
    return [match[0].lower() for match in _WORD.finditer(text)]


def _begins_with_vowel(word: str) -> bool:
    return word[:1].lower() in "aeiouyàâéèêëîïôöüûœæäıhæøå"
