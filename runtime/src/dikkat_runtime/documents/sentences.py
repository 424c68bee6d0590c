"""Sentences translated with a word that the model is likely to copy in the place of each placeholder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.paragraphs import WORD
from dikkat_runtime.text.placeholders import has_words

Translate = Callable[[Sequence[str]], Sequence[str]]

SURROGATES = ("Tom", "Mary", "Martin", "Paul", "Anna", "7", "12", "Paris", "Berlin", "25")
"""What stands for a placeholder while a sentence is translated; which come through depends on the model."""
TRIES = 4
"""Surrogates that are tried before the sentence is translated without the placeholder."""


@dataclass
class Sentence:
    """One sentence with `WORD` for each placeholder."""

    text: str
    surrogates: tuple[str | None, ...] = ()
    """What stands for each word; None where it is left out."""
    source: str = ""
    """What the model read."""
    target: str = ""
    """What the model wrote."""
    offsets: tuple[int, ...] = (0,)
    """For each character of `text`, and its end, where it is in `source`."""

    @property
    def num_words(self) -> int:
        """Placeholders."""
        return self.text.count(WORD)

    def fill(self, surrogates: tuple[str | None, ...]) -> None:
        """Put these in the place of the words; what is left out takes a space along."""
        self.surrogates = surrogates
        source, offsets, words = "", list[int](), iter(surrogates)
        for place, character in enumerate(self.text):
            offsets.append(len(source))
            if character == WORD:
                surrogate = next(words)
                if surrogate is None and source.endswith(" ") and not self.text[place + 1 : place + 2].isalnum():
                    source = source[:-1]
                    offsets[-1] = len(source)
                source += surrogate or ""
            elif character != " " or (source and not source.endswith(" ")):
                source += character
        self.source = source
        self.offsets = tuple(min(each, len(source)) for each in (*offsets, len(source)))

    def written_words(self) -> list[tuple[int, int, int]]:
        """In the order of the target: where each surrogate stands in it, and the number of its word."""
        found = []
        for number, surrogate in enumerate(self.surrogates):
            if surrogate is not None:
                match = _standing(surrogate).search(self.target)
                if match is None:
                    raise ValueError("a placeholder did not come back")
                found.append((match.start(), match.end(), number))
        return sorted(found)


@dataclass
class SentenceTranslator:
    """Translates sentences until each placeholder has come back exactly once, or is left out."""

    translate: Translate
    survived: Counter[str] = field(default_factory=Counter)
    """How often each surrogate came back more often than not."""

    def __call__(self, sentences: Sequence[Sentence]) -> None:
        """Fill in what each sentence is read as, and its translation."""
        waiting, tried = list(sentences), 0
        while waiting:
            for sentence in waiting:
                sentence.fill(self._choice(sentence, tried))
            readable = [each for each in waiting if has_words(each.text) and has_words(each.source)]
            for sentence in waiting:
                sentence.target = sentence.source
            translations = self.translate([each.source for each in readable]) if readable else ()
            for sentence, target in zip(readable, translations, strict=True):
                sentence.target = target.replace("\n", " ").strip()
            waiting = [each for each in waiting if not self._came_back(each)]
            tried += 1

    def _choice(self, sentence: Sentence, tried: int) -> tuple[str | None, ...]:
        count = sentence.num_words
        if not has_words(sentence.text) and not tried:
            # nothing to translate: it comes back as it is
            return tuple(f"Q{number}" for number in range(count))
        usable = [each for each in SURROGATES if not _standing(each).search(sentence.text)]
        # what has come back before comes first
        usable.sort(key=lambda each: -self.survived[each])
        if tried >= TRIES or count > len(usable):
            return (None,) * count
        return tuple(usable[(tried * count + number) % len(usable)] for number in range(count))

    def _came_back(self, sentence: Sentence) -> bool:
        back = [len(_standing(each).findall(sentence.target)) == 1 for each in sentence.surrogates if each is not None]
        if has_words(sentence.text):
            for each, is_back in zip(filter(None, sentence.surrogates), back, strict=True):
                self.survived[each] += 1 if is_back else -1
        return all(back)


def _standing(surrogate: str) -> re.Pattern[str]:
    """The surrogate as a word of its own; an apostrophe and a Turkish suffix may follow."""
    return re.compile(rf"(?<![\w.,]){surrogate}(?!\w|[.,]\d)")
