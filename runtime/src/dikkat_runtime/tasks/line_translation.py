"""Translate lines of any kind, one translation a line: protect, cut, copy and demand parts of them, and note it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, islice, repeat

from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.confidence import CERTAIN, EXACT, Judge, combined, flagged, renamed, respelled
from dikkat_runtime.tasks.demand_keeping import Decode, PieceTranslator, Steps, answered_together
from dikkat_runtime.tasks.reading import USUAL, Manner, Reading
from dikkat_runtime.tasks.surrogates import (
    END_MARKS,
    FIRST_SYMBOL,
    LAST_MARK,
    Filled,
    Protected,
    fill,
    inner_pairs,
    inner_symbols,
    protect,
    spaces_around,
    with_marks,
    with_outer_symbols,
)
from dikkat_runtime.tasks.translations import (
    Event,
    PieceRequest,
    PieceResult,
    Translation,
    TranslationNotes,
    copied,
    joined,
    prefixed,
)
from dikkat_runtime.text.demanded import measures
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.normalizing import has_hidden_direction
from dikkat_runtime.text.placeholders import has_words, lost
from dikkat_runtime.text.segmentation import Piece, Segmenter, Segments
from dikkat_runtime.text.sentences import cut_at_sentences, split_sentences


@dataclass(frozen=True, slots=True)
class TypedPrefix:
    """The typed text, divided by pieces."""

    finished: str
    """Text for the pieces before `number`, which are not translated any more."""
    number: int
    """Index of the piece that the rest of the text begins; one after the last piece where there is none."""
    begun: str
    """The beginning of the translation of that piece."""


UNTYPED = TypedPrefix("", -1, "")
"""The division of an empty text."""


def shared_out(prefix: str, pieces: Sequence[Piece], languages: tuple[str, str]) -> TypedPrefix:
    """Give each piece as many typed sentences as it has itself, the last one that has words all others.

    `languages` are those of the source and of the translation.
    """
    readable = [number for number, piece in enumerate(pieces) if piece.ids]
    sentences = cut_at_sentences(prefix, languages[1])
    finished, position = "", 0
    for number, piece in enumerate(pieces):
        rest = "".join(sentences[position:])
        if not piece.ids:
            # copied pieces may have been typed too
            if rest.lstrip().startswith(piece.text) and number != len(pieces) - 1:
                end = len(rest) - len(rest.lstrip()) + len(piece.text)
                end += len(rest[end:]) - len(rest[end:].lstrip())
                finished += rest[:end]
                sentences, position = cut_at_sentences(rest[end:], languages[1]), 0
            continue
        count = max(1, len(split_sentences(piece.text, languages[0])))
        if number == readable[-1] or position + count >= len(sentences):
            return TypedPrefix(finished, number, rest)
        finished += "".join(sentences[position : position + count])
        position += count
    return TypedPrefix(finished + "".join(sentences[position:]), len(pieces), "")


_MAX_CHARACTERS = 1_000_000
"""Most characters of the lines that are read ahead, so that memory stays bounded however long they are."""
_LATER_PIECE = 1 << 40
"""The distance between the numbers of two pieces of a line, so that sampling of other lines stays the same."""

Gaps = Callable[[str, tuple[int, ...], str, Sequence[int]], Sequence[int]]
"""Returns the characters of a translation that answer to characters of its source: source, ids, translation, those."""
Enclosed = Callable[[str, tuple[int, ...], str, Sequence[tuple[int, int]]], Sequence[tuple[int, int]]]
"""Returns the spans of a translation that answer to spans of its source, as `Gaps`."""


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    protected: Protected
    segments: Segments
    typed: TypedPrefix
    number: int
    """From 0."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One piece of a line and its request, None where it is copied."""

    piece: Piece
    filled: Filled
    request: PieceRequest | None
    line: _Line
    number: int
    manner: Manner


@dataclass(frozen=True, eq=False)
class LineTranslator:
    """A translator of lines: `segmenter` cuts them, `pieces` and `decode` translate them, `notes` counts events."""

    segmenter: Segmenter
    encode: Callable[[Sequence[str]], Sequence[Sequence[int]]]
    pieces: PieceTranslator
    decode: Decode
    options: DecodingOptions
    notes: TranslationNotes
    _: KW_ONLY
    reading: Reading
    """How the model reads text."""
    gaps: Gaps
    enclosed: Enclosed
    surrogates: Callable[[], Sequence[str]]
    """The order in which surrogates are tried."""
    glossary: Glossary | None = None
    judge: Judge | None = None
    corrected: Callable[[str], str | None] = lambda text: None
    """The correction of a source by a person."""

    def translate(
        self, lines: Iterable[str], window: int, prefixes: Iterable[str] | None = None
    ) -> Iterator[Translation]:
        """Yield one translation a line, in order.

        At most `window` lines are read ahead, and `window` pieces decoded together.

        Each begins with the text of `prefixes` for its line; a corrected line without a prefix comes back as corrected.
        When reading fails, the lines read before are translated first. Raises `DataError` where there are not as many
        prefixes as lines.
        """
        number, decode = 0, lambda asked: [self.decode(*one) for one in asked.values()]
        typed = repeat("") if prefixes is None else iter(prefixes)
        for texts in _read_ahead(lines, window):
            beginnings = list(islice(typed, len(texts)))
            if len(beginnings) < len(texts):
                raise DataError(
                    "there are more lines of text than prefixes ({count:,}); give one per line, empty where "
                    "there is none"
                ).fill(number + len(beginnings))
            known, batch, parts = self._begun(texts, beginnings, number)
            windows = (self._window(parts[start : start + window]) for start in range(0, len(parts), window))
            results = (answered_together([steps], decode)[0] for steps in windows)
            yield from self._ended(known, batch, chain.from_iterable(results))
            number += len(texts)
        if prefixes is not None and next(typed, None) is not None:
            raise DataError("there are more prefixes than lines of text ({count:,}); give one per line", number)

    def steps(self, texts: Sequence[str], prefixes: Sequence[str]) -> Steps[list[Translation]]:
        """Return the translation of each text, in steps that ask for what must be decoded; see `translate`."""
        known, batch, parts = self._begun(texts, prefixes, 0)
        results = yield from self._window(parts)
        return list(self._ended(known, batch, iter(results)))

    def _begun(
        self, texts: Sequence[str], prefixes: Sequence[str], before: int
    ) -> tuple[list[str | None], list[_Line], list[_Part]]:
        """Return the corrections of texts, and what is left to translate, after `before` others."""
        known = [None if prefix else self.corrected(text) for text, prefix in zip(texts, prefixes, strict=True)]
        own = [text if correction is None else "" for text, correction in zip(texts, known, strict=True)]
        batch = self._lines(own, prefixes, before)
        return known, batch, self._parts(batch)

    def _ended(
        self, known: Sequence[str | None], batch: Sequence[_Line], results: Iterator[tuple[_Part, PieceResult]]
    ) -> Iterator[Translation]:
        for correction, line in zip(known, batch, strict=True):
            translation = self._line(line, list(islice(results, len(line.segments.pieces))))
            yield translation if correction is None else replace(copied(correction), confidence=translation.confidence)

    def _lines(self, texts: Sequence[str], prefixes: Sequence[str], before: int) -> list[_Line]:
        """Return the pieces of each line; a line without words is one copied piece."""
        # what a person typed goes on as typed, so the line is read as it stands
        protected = [
            Protected(text)
            if not has_words(text)
            else self.reading.protected(text)
            if not prefix
            else protect(self.reading.plain(text).strip())
            for text, prefix in zip(texts, prefixes, strict=True)
        ]
        with_words = [has_words(safe.text) for safe in protected]
        cut = self._cut([safe for safe, has in zip(protected, with_words, strict=True) if has])
        lines = []
        rows = zip(texts, protected, with_words, prefixes, strict=True)
        for number, (text, safe, has, prefix) in enumerate(rows, start=before):
            segments = next(cut) if has else Segments([Piece(text, ())])
            typed = shared_out(safe.marked(prefix), segments.pieces, self.reading.languages) if prefix else UNTYPED
            lines.append(_Line(text, safe if has else Protected(text), segments, typed, number))
        return lines

    def _cut(self, lines: Sequence[Protected]) -> Iterator[Segments]:
        """Yield the pieces of lines; of one that holds a corrected sentence, each of its sentences."""
        for line, usual in zip(lines, self.segmenter.segment([line.text for line in lines]), strict=True):
            first, *others = cut_at_sentences(line.text, self.reading.languages[0])
            known = (self.corrected(line.restored(text.strip())) for text in (first, *others) if others)
            if all(correction is None for correction in known):
                yield usual
            else:
                yield self.segmenter.by_sentences().segment([line.text])[0]

    def _parts(self, lines: Sequence[_Line]) -> list[_Part]:
        pieces = [(line, number, piece) for line in lines for number, piece in enumerate(line.segments.pieces)]
        readings = [self._read(*entry) for entry in pieces]
        changed = [
            filled.text
            for (line, _, _), (filled, _) in zip(pieces, readings, strict=True)
            if filled is not None and (line.typed is not UNTYPED or filled.marks)
        ]
        ids_of = dict(zip(changed, self.encode(changed), strict=True)) if changed else {}
        parts = []
        for (line, number, piece), (filled, manner) in zip(pieces, readings, strict=True):
            ids = () if filled is None else ids_of.get(filled.text, piece.ids)
            request = None
            known = self.corrected(line.protected.restored(piece.text)) if line.typed is UNTYPED and ids else None
            if known is not None:
                piece, filled, ids, manner = Piece(known, ()), None, (), USUAL
            if filled is not None and ids:
                begun = line.typed.begun if number == line.typed.number else ""
                terms = self.glossary.demands(filled.text) if self.glossary is not None else ()
                demands = (*filled.demands, *terms, *measures(filled.text))
                closed = begun[-1:] in filled.marks
                request = PieceRequest(filled.text, tuple(ids), filled.filled(begun), demands, closed)
            own = Filled(piece.text, (), ()) if filled is None else filled
            parts.append(_Part(piece, own, request, line, line.number + number * _LATER_PIECE, manner))
        return parts

    def _read(self, line: _Line, number: int, piece: Piece) -> tuple[Filled | None, Manner]:
        """Return the piece of a line as the model reads it, and its manner; None where it is copied, or typed already.

        A line whose translation is begun by a person is read as it is written.
        """
        if not piece.ids or number < line.typed.number:
            return None, USUAL
        text, manner = self.reading.piece(piece.text) if line.typed is UNTYPED else (piece.text, USUAL)
        if not line.protected.placeholders and not line.protected.symbols:
            return Filled(text, (), ()), manner
        names = self.surrogates() if line.protected.placeholders else ()
        return fill(text, names, line.typed.begun if number == line.typed.number else ""), manner

    def _window(self, parts: Sequence[_Part]) -> Steps[list[tuple[_Part, PieceResult]]]:
        """Return the translations of pieces; equal ones are decoded once, unless they are sampled."""
        drawn = isinstance(self.options, SamplingOptions)
        wanted: dict[tuple[PieceRequest, int], int] = {}
        for part in parts:
            if part.request is not None:
                wanted.setdefault((part.request, part.number if drawn else 0), part.number)
        requests = [request for request, _ in wanted]
        own = yield from self.pieces(requests, list(wanted.values()))
        if self.judge is not None:
            own = self._judged(requests, own, self.judge)
        translated = dict(zip(wanted, own, strict=True))
        results = []
        for part in parts:
            if part.request is None:
                results.append((part, PieceResult(copied(part.piece.text))))
                continue
            result = translated[part.request, part.number if drawn else 0]
            number = part.line.number + 1
            if result.looped:
                self.notes.add("loop", number)
            elif not result.translation.finished:
                self.notes.add("unfinished", number)
            if result.translation.loses_words:
                self.notes.add("words lost", number)
            self.notes.demanded(number, part.request.demands, result.unmet, changed=result.changed)
            results.append((part, self._with_marks(part, result)))
        return results

    def _judged(
        self, requests: Sequence[PieceRequest], results: Sequence[PieceResult], judge: Judge
    ) -> list[PieceResult]:
        own = [result.translation for result in results]
        confidences = judge(
            [request.text for request in requests],
            [translation.text for translation in own],
            [translation.finished for translation in own],
            [translation.token_scores for translation in own],
        )
        judged = (
            replace(translation, confidence=flagged(confidence, translation.flags), token_scores=None)
            for translation, confidence in zip(own, confidences, strict=True)
        )
        return [replace(result, translation=own) for result, own in zip(results, judged, strict=True)]

    def _with_marks(self, part: _Part, result: PieceResult) -> PieceResult:
        """Return a translation in the manner of its piece, with its marks instead of their surrogates."""
        if not part.filled.marks and not part.filled.symbols and part.manner == USUAL:
            return result

        def marked(translation: Translation) -> Translation:
            names = frozenset(name for _, name in part.filled.names)
            written = self.reading.written(self._with_inner_symbols(part, translation.text), part.manner, names)
            text, misplaced = with_marks(part.piece.text, part.filled, written)
            outer = [mark for mark in part.filled.symbols if mark not in text]
            text = with_outer_symbols(part.piece.text, outer, text)
            if misplaced and translation is result.translation:
                self.notes.add("misplaced", part.line.number + 1)
            own = translation.confidence
            if own is not None:
                cased = self.reading.written(translation.text, part.manner, names)
                own = renamed(respelled(own, cased), part.filled.names)
            others = tuple(map(marked, translation.alternatives))
            return replace(translation, text=text, alternatives=others, confidence=own)

        return replace(result, translation=marked(result.translation))

    def _with_inner_symbols(self, part: _Part, text: str) -> str:
        """Return a translation with the marks of symbols between words, each where its neighbours in the source are."""
        pairs = inner_pairs(part.filled, part.piece.text, part.line.protected.pairs)
        inner = inner_symbols(part.filled, part.piece.text, [mark for marks, _, _ in pairs for mark in marks])
        request = part.request
        if not (inner or pairs) or request is None or not text.strip():
            return text
        offsets = self.gaps(request.text, request.ids, text, [offset for _, offset in inner]) if inner else ()
        spans = self.enclosed(request.text, request.ids, text, [span for _, span, _ in pairs]) if pairs else ()
        placed = [(offset, 1, mark) for offset, (mark, _) in zip(offsets, inner, strict=True)]
        spaces = {mark: spaces_around(part.piece.text, mark) for mark, _ in inner}
        for (marks, _, ends), (start, end) in zip(pairs, spans, strict=True):
            closed = len(text) - len(text[end:].lstrip(END_MARKS)) if ends else end
            placed += [(start, 2, marks[0]), (closed, 0, marks[1])] if start < end else [(end, 2, "".join(marks))]
        # at one character: what closes, the inner pair first, then signs, then what opens, the outer pair first
        for offset, kind, mark in sorted(placed, reverse=True):
            before, after = text[:offset], text[offset:]
            if kind == 1:
                left, right = spaces[mark]
                text = f"{before.rstrip()}{left}{mark}{right}{after.lstrip()}".strip()
            else:
                text = before + mark + after
        return text

    def _line(self, line: _Line, parts: Sequence[tuple[_Part, PieceResult]]) -> Translation:
        events: dict[Event, bool] = {
            "cut": line.segments.cut_sentence,
            "long word": line.segments.copied_word,
            "carriage return": "\r" in line.text,
            "direction": has_hidden_direction(line.text),
            "symbols": len(line.protected.symbols) >= LAST_MARK - FIRST_SYMBOL,
        }
        for event, happened in events.items():
            if happened:
                self.notes.add(event, line.number + 1)
        typed = line.typed
        translations = [result.translation for _, result in parts[max(0, typed.number) :]]
        if typed.number < 0:
            translation = joined(translations, self.options.alpha)
        else:
            translation = prefixed(typed.finished, translations, self.options.alpha)
        translation = _restored(line.protected, translation)
        if self.judge is not None:
            pieces = [piece_translation.confidence or CERTAIN for piece_translation in translations] or [CERTAIN]
            own = combined(pieces, exact=self.judge.calibration.right == EXACT)
            translation = replace(translation, confidence=renamed(own, line.protected.names))
            for flag in own.flags:
                self.notes.flagged(flag, line.number + 1)
        if parts[0][1].translation.text != line.text:
            self.notes.compare(line.number + 1, *lost(line.text, translation.text))
        return translation


def _restored(protected: Protected, translation: Translation) -> Translation:
    if not protected.placeholders and not protected.symbols:
        return translation
    others = tuple(_restored(protected, alternative) for alternative in translation.alternatives)
    return replace(translation, text=protected.restored(translation.text), alternatives=others)


def _read_ahead(lines: Iterable[str], window: int) -> Iterator[list[str]]:
    """Yield up to `window` lines together; lines read before an error come before the error."""
    iterator = iter(lines)
    while True:
        texts: list[str] = []
        failure: Exception | None = None
        characters = 0
        try:
            for text in islice(iterator, window):
                texts.append(text)
                characters += len(text)
                if characters > _MAX_CHARACTERS:
                    break
        except Exception as error:
            failure = error
        if texts:
            yield texts
        if failure is not None:
            raise failure
        if not texts:
            return
