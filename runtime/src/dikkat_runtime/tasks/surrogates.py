"""Pass placeholders through a model: a private character in the text, a name in the model's input.

A model has never met `{name}`, but knows what to do with a name. So each placeholder of a text becomes a character of
the private use area, its mark; before a piece of the text is read, a name replaces each mark, a surrogate,
which search then writes exactly once; and in the end the placeholder replaces the surrogate.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass

from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.placeholders import protected_spans
from dikkat_runtime.text.sentences import SYMBOL_MARKS

SURROGATES = (
    "Tom", "Mary", "Martin", "Paul", "Anna", "Paris", "Berlin", "Robert", "Maria", "Peter", "London", "Daniel", "Emma",
    "Madrid", "Simon", "Laura",
)  # fmt: skip
"""Names that may stand for a placeholder; the model decides which of them it copies best."""
FIRST_MARK = 0xE000
FIRST_SYMBOL, LAST_MARK = ord(SYMBOL_MARKS[0]), ord(SYMBOL_MARKS[-1])
"""Marks from here on stand for symbols: the model reads the text without them."""
MARK = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]")
SYMBOL = re.compile(f"[{chr(FIRST_SYMBOL)}-{chr(LAST_MARK)}]")
BEFORE_MARK = re.compile(f"(?<! ) [{chr(FIRST_SYMBOL)}-{chr(LAST_MARK)}](?=[.,;:!?…])")
BETWEEN = re.compile(rf"(?<=\w){SYMBOL.pattern}(?=\w)")
"""The mark of a symbol that parts two words."""
_SURE = 4
"""Letters of a partial address from which on it counts as an address."""
_GAP = re.compile(r"\s+|\Z")
END_MARKS = ".!?…,;:"
"""Signs that end a sentence or a clause."""


@dataclass(frozen=True, slots=True)
class Protected:
    """A text with a mark for each placeholder."""

    text: str
    placeholders: tuple[str, ...] = ()
    """The placeholders, by the number of the mark."""
    symbols: tuple[str, ...] = ()
    """The symbols, by the number of the mark from `FIRST_SYMBOL` on, as the translation has them."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The marks of brackets and quotations inside the text: opening and closing, in order."""

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        return tuple((placeholder, chr(FIRST_MARK + number)) for number, placeholder in enumerate(self.placeholders))

    def restored(self, text: str) -> str:
        """Return a text with the placeholders and the symbols instead of their marks."""
        if not self.placeholders and not self.symbols:
            return text
        return MARK.sub(lambda match: self._original(ord(match[0])), text)

    def _original(self, mark: int) -> str:
        originals, first = (self.symbols, FIRST_SYMBOL) if mark >= FIRST_SYMBOL else (self.placeholders, FIRST_MARK)
        # a model may have learned to write a private character
        return originals[mark - first] if mark - first < len(originals) else chr(mark)

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


def protect(
    text: str, symbols: Sequence[tuple[int, int, str]] = (), pairs: Sequence[tuple[int, int]] = ()
) -> Protected:
    """Mark the placeholders, addresses and private characters of a text; adjacent ones are one placeholder.

    `symbols` are spans of the text, in order, and what the translation has for each; those inside a placeholder are
    part of it, and beyond the first thousand the model reads them. `pairs` are the characters at which those begin that
    belong together.
    """
    spans = protected_spans(text, MARK)
    if len(spans) > FIRST_SYMBOL - FIRST_MARK:
        return Protected(text)
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    # a symbol is free that ends before the next placeholder
    starts, ends = [*(start for start, _ in merged), len(text)], [end for _, end in merged]
    free = [symbol for symbol in symbols if symbol[1] <= starts[bisect_right(ends, symbol[0])]]
    free = free[: LAST_MARK - FIRST_SYMBOL]
    marks = [(*span, chr(FIRST_MARK + number)) for number, span in enumerate(merged)]
    marks += [(start, end, chr(FIRST_SYMBOL + number)) for number, (start, end, _) in enumerate(free)]
    mark_at = {start: mark for start, _, mark in marks[len(merged) :]}
    parts, position = list[str](), 0
    for start, end, mark in sorted(marks):
        parts += [text[position:start], mark]
        position = end
    return Protected(
        "".join([*parts, text[position:]]),
        tuple(text[start:end] for start, end in merged),
        tuple(written for _, _, written in free),
        tuple((mark_at[first], mark_at[last]) for first, last in pairs if {first, last} <= mark_at.keys()),
    )


@dataclass(frozen=True, slots=True)
class Filled:
    """A piece with a surrogate for each mark."""

    text: str
    names: tuple[tuple[str, str], ...]
    """Mark and surrogate; marks for which there was no surrogate are left out."""
    marks: tuple[str, ...]
    """All marks of placeholders in the piece, in order."""
    symbols: tuple[str, ...] = ()
    """All marks of symbols in the piece, in order."""

    @property
    def demands(self) -> tuple[Demanded, ...]:
        matches = ((mark, name, re.search(_with_placeholders(name), self.text)) for mark, name in self.names)
        return tuple(
            Demanded((name,), 1, "placeholder", mark, (match.span(),) if match else ()) for mark, name, match in matches
        )

    def filled(self, text: str) -> str:
        """Return a text with the surrogates instead of their marks."""
        for mark, name in self.names:
            text = text.replace(mark, name)
        return text


def fill(text: str, ranked: Sequence[str], context: str = "") -> Filled:
    """Replace the marks of a piece by surrogates, the first of `ranked` that are neither in it nor in `context`."""
    symbols = tuple(SYMBOL.findall(text))
    text = without_symbols(text)
    marks = tuple(MARK.findall(text))
    usable = [name for name in ranked if not re.search(rf"(?<!\w){name}(?!\w)", f"{text} {context}")] if marks else []
    names = tuple(zip(marks, usable, strict=False))
    surrogate_of = dict(names)
    filled = MARK.sub(lambda match: surrogate_of.get(match[0], ""), text)
    return Filled(filled if len(names) == len(marks) else " ".join(filled.split()), names, marks, symbols)


def without_symbols(text: str) -> str:
    """Return a text without the marks of symbols and the spaces that they leave."""
    if not SYMBOL.search(text):
        return text
    return " ".join(filter(None, SYMBOL.sub("", BETWEEN.sub(" ", BEFORE_MARK.sub("", text))).split(" ")))


def with_marks(piece: str, filled: Filled, translation: str) -> tuple[str, list[str]]:
    """Return a translation with each mark exactly once, and the marks that were inserted by their source position.

    `piece` is the text with the marks.
    """
    text, lost = translation, list[str]()
    surrogate_of = dict(filled.names)
    for mark in filled.marks:
        name = surrogate_of.get(mark)
        standing = None if name is None else re.compile(_with_placeholders(name), re.IGNORECASE)
        if standing is not None:
            if len(standing.findall(text)) == 1:
                text = standing.sub(mark, text)
                continue
            # a surrogate written twice is as wrong as a missing one
            text = re.sub(rf"\s?{standing.pattern}", "", text, flags=re.IGNORECASE)
        lost.append(mark)
    for mark in lost:
        text = _inserted(text, mark, piece.index(mark) / max(1, len(piece)))
    return text, lost


def inner_symbols(filled: Filled, piece: str, skipped: Container[str]) -> list[tuple[str, int]]:
    """Return the marks of symbols between words of `piece`, and before which character of `filled.text` each stands.

    Those in `skipped` are left out.
    """
    begins = [match.start() for match in re.finditer(r"\S+", filled.text)]
    inner = []
    for mark in filled.symbols:
        before, after = piece.split(mark, 1)
        if mark not in skipped and _has_word(before) and _has_word(after):
            words = len(SYMBOL.sub("", before).split())
            inner.append((mark, begins[min(words, len(begins) - 1)]))
    return inner


def spaces_around(piece: str, mark: str) -> tuple[str, str]:
    """Return the spaces on both sides of the mark of a symbol, which other marks may stand next to."""
    before, after = (SYMBOL.sub("", part) for part in piece.split(mark, 1))
    return " " * before.endswith(" "), " " * after.startswith(" ")


def inner_pairs(
    filled: Filled, piece: str, pairs: Sequence[tuple[str, str]]
) -> list[tuple[tuple[str, str], tuple[int, int], bool]]:
    """Return each pair of marks around some of the words of `piece`: marks, those words in `filled.text`, and a flag.

    The flag is True if a sign that ends a sentence or a clause stands before the closing mark.
    """
    chunks = list(re.finditer(r"\S+", filled.text))
    inner = []
    for opening, closing in pairs:
        if opening not in piece or closing not in piece:
            continue
        before, rest = piece.split(opening, 1)
        within, after = rest.split(closing, 1)
        first, last = (len(SYMBOL.sub("", text).split()) for text in (before, before + within))
        if _has_word(within) and (_has_word(before) or _has_word(after)) and first < last <= len(chunks):
            span = chunks[first].start(), chunks[last - 1].end()
            inner.append(((opening, closing), span, within.rstrip()[-1:] in END_MARKS))
    return inner


def with_outer_symbols(piece: str, symbols: Sequence[str], translation: str) -> str:
    """Return a translation with the marks of symbols that stand before or after all words of `piece`, as they do there.

    The space of the source is kept, and what follows the last symbol, such as a full stop, follows it here, too.
    """
    first, last = list[str](), list[str]()
    for mark in symbols:
        before, after = piece.split(mark, 1)
        if not _has_word(after):
            last.append(f"{' ' if before[-1:].isspace() else ''}{mark}")
        elif not _has_word(before):
            first.append(f"{mark}{' ' if after[:1].isspace() else ''}")
    closing = ""
    if last:
        rest = MARK.sub("", piece.split(last[0][-1], 1)[1]).strip()
        if rest and not rest.strip(END_MARKS):
            text = translation.rstrip(END_MARKS).rstrip()
            translation, closing = text, translation[len(text) :]
    return "".join([*first, translation, *last, closing])


def _has_word(text: str) -> bool:
    """Return whether a text has a letter, a digit or a placeholder."""
    return any(character.isalnum() or FIRST_MARK <= ord(character) < FIRST_SYMBOL for character in text)


def _with_placeholders(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _inserted(text: str, mark: str, share: float) -> str:
    """Return a text with the mark between the words that are nearest to this share of it."""
    at = min((gap.start() for gap in _GAP.finditer(text)), key=lambda index: abs(index - share * len(text)))
    if share == 0:
        return f"{mark} {text}"
    return f"{text[:at]} {mark}{text[at:]}".strip()
