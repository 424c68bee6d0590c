"""Sentences translated with a character of the private use area in the place of each placeholder.

A translator brings such a character through exactly once (tasks/surrogates.py). What aligns a sentence with its
translation afterwards reads a name in its place, on both sides.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from dikkat_runtime.documents.paragraphs import WORD
from dikkat_runtime.tasks.surrogates import FIRST_MARK, LAST_MARK, SURROGATES
from dikkat_runtime.text.placeholders import has_words

_NUMBERED = re.compile(r"Q[0-9]{1,9}")
Translate = Callable[[Sequence[str]], Sequence[str]]
"""From sentences to their translations; what loses a character of the private use area loses a placeholder."""


@dataclass
class Sentence:
    """One sentence with `WORD` for each placeholder."""

    text: str
    surrogates: tuple[str | None, ...] = ()
    """The surrogate of each word; None where it is left out."""
    source: str = ""
    """What is aligned with the translation."""
    target: str = ""
    """The translation, with the same names."""
    written: tuple[tuple[int, int, int], ...] = ()
    """In the order of the target: where each surrogate stands in it, and the number of its word."""
    offsets: tuple[int, ...] = (0,)
    """The position in `source` of each character of `text`, and of its end."""

    @property
    def num_words(self) -> int:
        """The number of placeholders."""
        return self.text.count(WORD)

    def fill(self, surrogates: tuple[str | None, ...]) -> None:
        """Replace the words by these surrogates; a word that is left out takes a space along."""
        self.surrogates = surrogates
        parts, length, offsets, words = list[str](), 0, list[int](), iter(surrogates)
        for index, character in enumerate(self.text):
            offsets.append(length)
            if character == WORD:
                character = next(words) or ""
                if not character and parts[-1:] == [" "] and not self.text[index + 1 : index + 2].isalnum():
                    parts.pop()
                    length -= 1
                    offsets[-1] = length
            elif character == " " and parts[-1:] in ([], [" "]):
                continue
            if character:
                parts.append(character)
                length += len(character)
        self.source = "".join(parts)
        self.offsets = tuple(min(offset, length) for offset in (*offsets, length))

    def write(self, target: str, marks: Sequence[str], names: Sequence[str]) -> None:
        """Take a translation, in which a name is put in the place of each mark; no other `WORD` stays in it."""
        numbers = {mark: number for number, mark in enumerate(marks)}
        parts, length, written = list[str](), 0, list[tuple[int, int, int]]()
        for character in target:
            number = numbers.get(character)
            part = names[number] if number is not None else character if character != WORD else ""
            if number is not None:
                written.append((length, length + len(part), number))
            parts.append(part)
            length += len(part)
        self.target, self.written = "".join(parts), tuple(written)


@dataclass
class SentenceTranslator:
    """Translates sentences; a placeholder that does not come back exactly once is left out."""

    translate: Translate

    def __call__(self, sentences: Sequence[Sentence]) -> None:
        """Fill in what is aligned of each sentence, and its translation."""
        for sentence in sentences:
            if not has_words(sentence.text):
                # nothing to translate: it comes back as it is
                text, marks = _marked(sentence.text)
                names = tuple(islice(_names(text), sentence.num_words))
                sentence.fill(names)
                sentence.write(sentence.text if len(marks) < len(names) else text, marks, names)
        readable = [sentence for sentence in sentences if has_words(sentence.text)]
        marked = [_marked(sentence.text) for sentence in readable]
        translations = self._translated([text for text, _ in marked])
        incomplete = []
        for sentence, (_, marks), target in zip(readable, marked, translations, strict=True):
            counts = Counter(target) if marks else Counter[str]()
            if len(marks) == sentence.num_words and all(counts[mark] == 1 for mark in marks):
                names = tuple(islice(_names(f"{sentence.text} {target}"), len(marks)))
                sentence.fill(names)
                sentence.write(target, marks, names)
            else:
                sentence.fill((None,) * sentence.num_words)
                sentence.write(sentence.source, "", ())
                incomplete.append(sentence)
        wordy = [sentence for sentence in incomplete if has_words(sentence.source)]
        for sentence, target in zip(wordy, self._translated([sentence.source for sentence in wordy]), strict=True):
            sentence.write(target, "", ())

    def _translated(self, texts: Sequence[str]) -> list[str]:
        return [target.replace("\n", " ").strip() for target in self.translate(texts)] if texts else []


def _marked(text: str) -> tuple[str, str]:
    """Return a text with a character of its own for each `WORD`, and these; fewer where there are not enough."""
    unused = map(chr, range(FIRST_MARK, LAST_MARK + 1))
    present = set(text) - {WORD}
    marks = list(islice((mark for mark in unused if mark not in present), text.count(WORD)))
    remaining = iter(marks)
    return "".join(next(remaining, WORD) if character == WORD else character for character in text), "".join(marks)


def _names(text: str) -> Iterator[str]:
    """Yield names that do not stand in a text, without end."""
    yield from (name for name in SURROGATES if not _standing(name).search(text))
    standing = {name[0][:end] for name in _NUMBERED.finditer(text) for end in range(2, len(name[0]) + 1)}
    yield from (name for name in (f"Q{number}" for number in count()) if name not in standing)


def _standing(surrogate: str) -> re.Pattern[str]:
    """Return a pattern of the surrogate as a whole word; an apostrophe and a Turkish suffix may follow."""
    return re.compile(rf"(?<![\w.,]){surrogate}(?!\w|[.,]\d)")
