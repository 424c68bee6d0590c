"""Cut a line into pieces that a model can read: at sentences, else at clauses, else at words."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.sentences import BREAK, split_sentences

Encode = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""Returns the ids of each text."""

_AT_ONCE = 4_000
"""Characters of the longest text whose tokens are counted before it is cut."""
_ENCODED = 2_000
"""Texts whose tokens are counted together: the results of each are large."""
CLAUSE_MARKS = tuple(",;:،؛—–、，；：")
DASH = re.compile(r"([-\u2013\u2014])\s+(\S.*)", re.DOTALL)
WORD = re.compile(r"(?:\S{0,9}\d\s+){0,2}\S+\s*")
"""A word with the space after it, and with short numbers before it, which may be of a unit."""
LANGUAGE_MARK = re.compile(r"(>>[^<>\s]+<<)\s*(?=\S)")
_SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
)
# compiled by `re` at the first use: sets beyond U+FFFF take it longer than all else that a short command imports
HAS_SPACELESS = f"[{_SPACELESS}]"
"""Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han."""
CHARACTERS = f"[{_SPACELESS}]|[^{_SPACELESS}]+"
CJK = "[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The lengths that a model has learned to read in one piece."""

    longest: int
    """Most tokens of a sentence that is read whole."""
    usual: int
    """Most tokens of a few sentences that are read together; never more than `longest`."""
    several_sentences: bool
    """True if it has learned from lines of several sentences; else each sentence is read alone."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line that is read in one piece."""

    text: str
    ids: Sequence[int]
    """Empty where the text is copied."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The pieces of a line, and two events that the user should know."""

    pieces: Sequence[Piece]
    cut_sentence: bool = False
    """True if a sentence was too long for the model and was cut."""
    copied_word: bool = False
    """True if a word was too long for the model and is copied."""


class Segmenter:
    """A segmenter cuts lines for a model with `limits`, in linear time. `encode` gives the ids of texts."""

    def __init__(self, encode: Encode, limits: ReadingLimits, language: str = "") -> None:
        self._encode = encode
        self._limits = limits
        self._language = language

    def by_sentences(self) -> "Segmenter":
        """Return a segmenter for the same model that never joins sentences."""
        return Segmenter(self._encode, replace(self._limits, several_sentences=False), self._language)

    def segment(self, lines: Sequence[str]) -> list[Segments]:
        """Return the pieces of every line; each must have something to translate and no white space around it."""
        return [self._marked(line, self._segments(line, ids)) for line, ids in self._with_ids(lines)]

    def _marked(self, line: str, segments: Segments) -> Segments:
        """Return the pieces of a line, each with the mark of a target language that it begins with: ">>fra<<"."""
        mark = LANGUAGE_MARK.match(line)
        if mark is None or len(segments.pieces) == 1 or len(self._encode([mark[1]])[0]) != 1:
            return segments
        limits = self._limits
        shorter = replace(limits, longest=max(1, limits.longest - 1), usual=max(1, limits.usual - 1))
        unmarked = Segmenter(self._encode, shorter, self._language).segment([line[mark.end() :]])[0]
        texts = [mark[0] + piece.text if piece.ids else piece.text for piece in unmarked.pieces]
        encoded = self._ids([text for text, piece in zip(texts, unmarked.pieces, strict=True) if piece.ids])
        pieces = [
            Piece(text, next(encoded) if piece.ids else ()) for text, piece in zip(texts, unmarked.pieces, strict=True)
        ]
        return replace(unmarked, pieces=pieces)

    def _segments(self, line: str, ids: Sequence[int] | None) -> Segments:
        limits = self._limits
        fits = ids is not None and limits.several_sentences and len(ids) <= limits.usual and not BREAK.search(line)
        if ids is not None and fits and len(_without_dash(line)) == 1:
            return Segments([Piece(line, ids)])
        sentences = [part for sentence in split_sentences(line, self._language) for part in _without_dash(sentence)]
        if ids is not None and len(ids) <= limits.longest and len(sentences) == 1:
            return Segments([Piece(line, ids)])
        pieces: list[Piece] = []
        cut = copied = False
        for sentence, known in self._with_ids(sentences):
            if known is not None and len(known) <= limits.longest:
                pieces.append(Piece(sentence, known if has_words(sentence) else ()))
                continue
            parts = [part for block in _blocks(sentence) for part in self._parts(block)]
            cut = cut or len(parts) > 1
            copied = copied or any(not part.ids and has_words(part.text) for part in parts)
            pieces += parts
        return Segments(self._together(pieces) if limits.several_sentences else pieces, cut, copied)

    def _with_ids(self, texts: Sequence[str]) -> Iterator[tuple[str, Sequence[int] | None]]:
        """Yield each text with its ids, or None where it is so long that it is cut before it is encoded."""
        encoded = self._ids([text for text in texts if len(text) <= _AT_ONCE])
        return ((text, next(encoded) if len(text) <= _AT_ONCE else None) for text in texts)

    def _ids(self, texts: Sequence[str]) -> Iterator[Sequence[int]]:
        for start in range(0, len(texts), _ENCODED):
            yield from self._encode(texts[start : start + _ENCODED])

    def _together(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Join neighbours to one piece, as long as it has no more tokens than usual."""
        groups: list[list[Piece]] = []
        tokens = 0
        for piece in pieces:
            # one more, since the space between may be a token
            more = 1 + len(piece.ids)
            if groups and piece.ids and groups[-1][-1].ids and tokens + more <= self._limits.usual:
                groups[-1].append(piece)
            else:
                groups.append([piece])
                tokens = -1
            tokens += more
        texts = [join([piece.text for piece in group]) for group in groups]
        encoded = self._ids([text for text, group in zip(texts, groups, strict=True) if len(group) > 1])
        return [
            Piece(text, next(encoded)) if len(group) > 1 else group[0]
            for text, group in zip(texts, groups, strict=True)
        ]

    def _parts(self, sentence: str) -> list[Piece]:
        """Return a sentence that is too long, cut at its clauses, and where that is not enough at words."""
        atoms = list(_atoms(sentence))
        counts = [len(ids) if ids is not None else _AT_ONCE for _, ids in self._with_ids(atoms)]
        texts: list[str] = []
        is_copied: list[bool] = []
        for copied, run in _runs(atoms, counts, self._limits.longest):
            groups = [run] if copied else _groups(run, self._limits.longest)
            texts += ["".join(atom for atom, _ in group).strip() for group in groups]
            is_copied += [copied] * len(groups)
        encoded = self._ids([text for text, copied in zip(texts, is_copied, strict=True) if not copied])
        pieces = [Piece(text, () if copied else next(encoded)) for text, copied in zip(texts, is_copied, strict=True)]
        return [Piece(piece.text, piece.ids if has_words(piece.text) else ()) for piece in pieces]


def _without_dash(sentence: str) -> list[str]:
    """Return a dash before direct speech, which a model may omit, and the speech; else the sentence alone."""
    spoken = DASH.fullmatch(sentence)
    return [spoken[1], spoken[2]] if spoken and has_words(spoken[2]) else [sentence]


def _blocks(sentence: str) -> Iterator[str]:
    """Yield a sentence in blocks of words of a limited number of characters, so that memory stays bounded."""
    words, characters = list[str](), 0
    for word in WORD.findall(sentence):
        words.append(word)
        characters += len(word)
        if characters > _AT_ONCE:
            yield "".join(words)
            words, characters = [], 0
    if words:
        yield "".join(words)


Atom = tuple[str, int]
"""A part that is not cut further, and the number of its tokens."""


def _atoms(sentence: str) -> Iterator[str]:
    """Yield words with the space after them; in scripts without spaces, characters."""
    for word in WORD.findall(sentence):
        if is_spaceless(word):
            yield from re.findall(CHARACTERS, word)
        else:
            yield word


def _runs(atoms: Sequence[str], counts: Sequence[int], longest: int) -> Iterator[tuple[bool, list[Atom]]]:
    """Yield runs of atoms that can be read, and one by one those that are too long, which are copied."""
    run: list[Atom] = []
    for atom, count in zip(atoms, counts, strict=True):
        if count <= longest or is_spaceless(atom):
            run.append((atom, count))
            continue
        if run:
            yield False, run
        yield True, [(atom, count)]
        run = []
    if run:
        yield False, run


def _groups(atoms: Sequence[Atom], longest: int) -> list[list[Atom]]:
    """Return groups of clauses of at most `longest` tokens; a longer clause is cut to parts of about one size."""
    groups: list[list[Atom]] = []
    tokens = longest
    for clause in _clauses(atoms):
        total = sum(count for _, count in clause)
        if tokens + total <= longest:
            groups[-1] += clause
            tokens += total
            continue
        share = -(-total // -(-total // longest))
        tokens = longest
        for atom in clause:
            if tokens + atom[1] > share or not groups or tokens >= longest:
                groups.append([])
                tokens = 0
            groups[-1].append(atom)
            tokens += atom[1]
    return groups


def _clauses(atoms: Sequence[Atom]) -> Iterator[list[Atom]]:
    clause: list[Atom] = []
    for atom in atoms:
        clause.append(atom)
        if atom[0].rstrip().endswith(CLAUSE_MARKS):
            yield clause
            clause = []
    if clause:
        yield clause


def is_spaceless(text: str) -> bool:
    """Return whether a letter is of a script without spaces between words."""
    return not text.isascii() and re.search(HAS_SPACELESS, text) is not None


def join(texts: Sequence[str]) -> str:
    """Join texts with a space between them, but none next to a sign of Chinese or Japanese."""
    parts: list[str] = []
    for text in texts:
        if not text:
            continue
        if parts and not (_is_cjk(parts[-1][-1]) or _is_cjk(text[0])):
            parts.append(" ")
        parts.append(text)
    return "".join(parts)


def _is_cjk(character: str) -> bool:
    return not character.isascii() and re.match(CJK, character) is not None
