"""Translate sentences with a word that the model is likely to copy instead of each placeholder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.paragraphs import WORD
from dikkat_runtime.text.placeholders import has_words

Translate = Callable[[Sequence[str]], Sequence[str]]

SURROGATES = ("Tom", "Mary", "Martin", "Paul", "Anna", "7", "12", "Paris", "Berlin", "25")
"""Words that stand for a placeholder while a sentence is translated; the model decides which it copies."""
TRIES = 4
"""Surrogates that are tried before the sentence is translated without the placeholder."""


@dataclass
class Sentence:
    """One sentence with `WORD` for each placeholder."""

    text: str
    surrogates: tuple[str | None, ...] = ()
    """The surrogate of each word; None where it is left out."""
    source: str = ""
    """The input of the model."""
    target: str = ""
    """The output of the model."""
    offsets: tuple[int, ...] = (0,)
    """The position in `source` of each character of `text`, and of its end."""

    @property
    def num_words(self) -> int:
        """The number of placeholders."""
        return self.text.count(WORD)

    def fill(self, surrogates: tuple[str | None, ...]) -> None:
        """Replace the words by these surrogates; a word that is left out takes a space along."""
        self.surrogates = surrogates
        source, offsets, words = "", list[int](), iter(surrogates)
        for index, character in enumerate(self.text):
            offsets.append(len(source))
            if character == WORD:
                surrogate = next(words)
                if surrogate is None and source.endswith(" ") and not self.text[index + 1 : index + 2].isalnum():
                    source = source[:-1]
                    offsets[-1] = len(source)
                source += surrogate or ""
            elif character != " " or (source and not source.endswith(" ")):
                source += character
        self.source = source
        self.offsets = tuple(min(offset, len(source)) for offset in (*offsets, len(source)))

    def written_words(self) -> list[tuple[int, int, int]]:
        """Return the span of each surrogate in the target and the number of its word, in the order of the target."""
        spans = []
        for number, surrogate in enumerate(self.surrogates):
            if surrogate is not None:
                match = _standing(surrogate).search(self.target)
                if match is None:
                    raise ValueError("a placeholder did not come back")
                spans.append((match.start(), match.end(), number))
        return sorted(spans)


@dataclass
class SentenceTranslator:
    """A translator of sentences that repeats until each placeholder came back exactly once, or is left out."""

    translate: Translate
    survived: Counter[str] = field(default_factory=Counter)
    """For each surrogate how often it came back, minus how often it did not."""

    def __call__(self, sentences: Sequence[Sentence]) -> None:
        """Set the source and the target of each sentence."""
        waiting, tried = list(sentences), 0
        while waiting:
            for sentence in waiting:
                sentence.fill(self._choice(sentence, tried))
            readable = [sentence for sentence in waiting if has_words(sentence.text) and has_words(sentence.source)]
            for sentence in waiting:
                sentence.target = sentence.source
            translations = self.translate([sentence.source for sentence in readable]) if readable else ()
            for sentence, target in zip(readable, translations, strict=True):
                sentence.target = target.replace("\n", " ").strip()
            waiting = [sentence for sentence in waiting if not self._came_back(sentence)]
            tried += 1

    def _choice(self, sentence: Sentence, tried: int) -> tuple[str | None, ...]:
        count = sentence.num_words
        if not has_words(sentence.text) and not tried:
            # nothing to translate: the target is the source
            return tuple(f"Q{number}" for number in range(count))
        usable = [surrogate for surrogate in SURROGATES if not _standing(surrogate).search(sentence.text)]
        # surrogates that came back before come first
        usable.sort(key=lambda surrogate: -self.survived[surrogate])
        if tried >= TRIES or count > len(usable):
            return (None,) * count
        return tuple(usable[(tried * count + number) % len(usable)] for number in range(count))

    def _came_back(self, sentence: Sentence) -> bool:
        back = [
            len(_standing(surrogate).findall(sentence.target)) == 1
            for surrogate in sentence.surrogates
            if surrogate is not None
        ]
        if has_words(sentence.text):
            for surrogate, is_back in zip(filter(None, sentence.surrogates), back, strict=True):
                self.survived[surrogate] += 1 if is_back else -1
        return all(back)


def _standing(surrogate: str) -> re.Pattern[str]:
    """Return a pattern of the surrogate as a whole word; an apostrophe and a Turkish suffix may follow."""
    return re.compile(rf"(?<![\w.,]){surrogate}(?!\w|[.,]\d)")
