"""Pass placeholders through a model: a private character in the text, a name in the model's input.

A model has never met `{name}`, but knows what to do with a name. So each placeholder of a text becomes a character of
the private use area, its mark; before a piece of the text is read, a name replaces each mark, a surrogate,
which search then writes exactly once; and in the end the placeholder replaces the surrogate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.placeholders import protected_spans

SURROGATES = (
    "Tom", "Mary", "Martin", "Paul", "Anna", "Paris", "Berlin", "Robert", "Maria", "Peter", "London", "Daniel", "Emma",
    "Madrid", "Simon", "Laura",
)  # fmt: skip
"""Names that may stand for a placeholder; the model decides which of them it copies best."""
FIRST_MARK, LAST_MARK = 0xE000, 0xF8FF
_MARK = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]")
_SURE = 4
"""Letters of a partial address from which on it counts as an address."""
_GAP = re.compile(r"\s+|\Z")


@dataclass(frozen=True, slots=True)
class Protected:
    """A text with a mark for each placeholder."""

    text: str
    placeholders: tuple[str, ...] = ()
    """The placeholders, by the number of the mark."""

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Each placeholder with its mark."""
        return tuple((placeholder, chr(FIRST_MARK + number)) for number, placeholder in enumerate(self.placeholders))

    def restored(self, text: str) -> str:
        """Return a text with the placeholders instead of their marks."""
        if not self.placeholders:
            return text
        return _MARK.sub(lambda match: self.placeholders[ord(match[0]) - FIRST_MARK], text)

    def marked(self, typed: str) -> str:
        """Return the typed beginning of a translation with marks; a partial placeholder is left as typed."""
        left = list(enumerate(self.placeholders))
        for number, placeholder in sorted(left, key=lambda entry: -len(entry[1])):
            if placeholder in typed:
                typed = typed.replace(placeholder, chr(FIRST_MARK + number), 1)
                left.remove((number, placeholder))
        for number, placeholder in left:
            for size in range(len(placeholder) - 1, 0, -1):
                tail = placeholder[:size]
                if typed.endswith(tail) and (not tail[0].isalnum() or size >= _SURE):
                    return typed[:-size] + chr(FIRST_MARK + number)
        return typed


def protect(text: str) -> Protected:
    """Mark the placeholders, addresses and private characters of a text; adjacent ones are one placeholder."""
    spans = protected_spans(text, _MARK)
    if not spans or len(spans) > LAST_MARK - FIRST_MARK:
        return Protected(text)
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    parts, position = list[str](), 0
    for number, (start, end) in enumerate(merged):
        parts += [text[position:start], chr(FIRST_MARK + number)]
        position = end
    return Protected("".join([*parts, text[position:]]), tuple(text[start:end] for start, end in merged))


@dataclass(frozen=True, slots=True)
class Filled:
    """A piece with a surrogate for each mark."""

    text: str
    names: tuple[tuple[str, str], ...]
    """Mark and surrogate; marks for which there was no surrogate are left out."""
    marks: tuple[str, ...]
    """All marks of the piece, in order."""

    @property
    def demands(self) -> tuple[Demanded, ...]:
        """The surrogates as demands on the translation."""
        matches = ((mark, name, re.search(_standing(name), self.text)) for mark, name in self.names)
        return tuple(
            Demanded((name,), 1, "placeholder", mark, (match.span(),) if match else ()) for mark, name, match in matches
        )

    def filled(self, text: str) -> str:
        """Return a text with the surrogates instead of their marks."""
        for mark, name in self.names:
            text = text.replace(mark, name)
        return text


def fill(text: str, ranked: Sequence[str], beside: str = "") -> Filled:
    """Replace the marks of a piece by surrogates, the first of `ranked` that are neither in it nor in `beside`."""
    marks = tuple(_MARK.findall(text))
    usable = [name for name in ranked if not re.search(rf"(?<!\w){name}(?!\w)", f"{text} {beside}")]
    names = tuple(zip(marks, usable, strict=False))
    surrogate_of = dict(names)
    filled = _MARK.sub(lambda match: surrogate_of.get(match[0], ""), text)
    return Filled(" ".join(filled.split(" ")) if len(names) == len(marks) else " ".join(filled.split()), names, marks)


def with_marks(piece: str, filled: Filled, translation: str) -> tuple[str, list[str]]:
    """Return a translation with each mark exactly once, and the marks that were inserted by their source position.

    `piece` is the text with the marks.
    """
    text, lost = translation, list[str]()
    surrogate_of = dict(filled.names)
    for mark in filled.marks:
        name = surrogate_of.get(mark)
        standing = None if name is None else re.compile(_standing(name), re.IGNORECASE)
        if standing is not None:
            if len(standing.findall(text)) == 1:
                text = standing.sub(mark, text)
                continue
            # a surrogate written twice is as wrong as a missing one
            text = re.sub(rf"\s?{standing.pattern}", "", text, flags=re.IGNORECASE)
        lost.append(mark)
    for mark in lost:
        share = piece.index(mark) / max(1, len(piece))
        text = _inserted(text, mark, share)
    return text, lost


def ranked_surrogates(translate: Callable[[Sequence[str]], Sequence[str]]) -> tuple[str, ...]:
    """Return the surrogates, those first that a model copies unchanged when it reads them alone."""
    texts = translate(SURROGATES)
    return tuple(sorted(SURROGATES, key=lambda name: texts[SURROGATES.index(name)].strip(" .") != name))


def _standing(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _inserted(text: str, mark: str, share: float) -> str:
    """Return a text with the mark between the words that are nearest to this share of it."""
    at = min((gap.start() for gap in _GAP.finditer(text)), key=lambda index: abs(index - share * len(text)))
    if share == 0:
        return f"{mark} {text}"
    return f"{text[:at]} {mark}{text[at:]}".strip()
