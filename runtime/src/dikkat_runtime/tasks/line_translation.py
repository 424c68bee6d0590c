"""Lines of any kind in, one translation a line out: what is cut, copied, decoded again and told about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.translation_notes import Event, TranslationNotes
from dikkat_runtime.tasks.translations import Translation, copied, joined
from dikkat_runtime.text.placeholders import has_words, lost
from dikkat_runtime.text.repetition import is_loop
from dikkat_runtime.text.segmentation import Piece, Segmenter, Segments

Decode = Callable[[Sequence[Sequence[int]], Sequence[int], DecodingOptions], list[Translation]]
"""From source ids, a number for each and the options to the translations."""

RETRY_NGRAM = 3
"""Tokens that must not stand twice where an output that went round in a loop is decoded again."""
_MOST_CHARACTERS = 1_000_000
"""Of the lines that are read ahead, so that memory stays bounded however long they are."""
_LATER_PIECE = 1 << 40
"""By how much the number of each next piece of a line is higher: what is drawn for other lines stays the same."""


class LineTranslator:
    """Translates lines: `segmenter` cuts them, `decode` translates the pieces, `notes` hears what happened."""

    def __init__(
        self, segmenter: Segmenter, decode: Decode, options: DecodingOptions, notes: TranslationNotes, retry: bool
    ) -> None:
        """With `retry`, outputs that went round in a loop are decoded again under a limit on repetition."""
        self._segmenter, self._decode, self._options, self._notes = segmenter, decode, options, notes
        self._retries = retry and not options.limits_repetition

    def translate(self, lines: Iterable[str], window: int) -> Iterator[Translation]:
        """One translation a line, in order; at most `window` lines are read ahead, and so many pieces decoded together.

        When reading fails, what was read before is translated first.
        """
        number = 0
        for texts in _read_ahead(lines, window):
            segments = self._segments(texts)
            pieces = self._translated(segments, number, window)
            for text, segment in zip(texts, segments, strict=True):
                number += 1
                yield self._line(text, segment, list(islice(pieces, len(segment.pieces))), number)

    def _segments(self, texts: Sequence[str]) -> list[Segments]:
        """The pieces of each line; one without words is a piece that is copied."""
        with_words = [has_words(text) for text in texts]
        cut = iter(self._segmenter.segment([text.strip() for text, has in zip(texts, with_words, strict=True) if has]))
        return [next(cut) if has else Segments([Piece(text, ())]) for text, has in zip(texts, with_words, strict=True)]

    def _translated(self, segments: Sequence[Segments], before: int, window: int) -> Iterator[Translation]:
        """The translation of every piece of lines that have so many `before` them, a window of pieces at a time."""
        numbered = [
            (piece, before + line + place * _LATER_PIECE)
            for line, segment in enumerate(segments)
            for place, piece in enumerate(segment.pieces)
        ]
        for start in range(0, len(numbered), window):
            yield from self._window(numbered[start : start + window])

    def _window(self, numbered: Sequence[tuple[Piece, int]]) -> list[Translation]:
        """The translations of pieces; of equal ones one is decoded, unless each is drawn for itself."""
        drawn = isinstance(self._options, SamplingOptions)
        keys = [(tuple(piece.ids), number if drawn else 0) for piece, number in numbered]
        wanted: dict[tuple[Sequence[int], int], int] = {}
        for key, (_, number) in zip(keys, numbered, strict=True):
            if key[0]:
                wanted.setdefault(key, number)
        found, again = self._without_loops([ids for ids, _ in wanted], list(wanted.values()))
        made = dict(zip(wanted, found, strict=True))
        looped = {key for place, key in enumerate(wanted) if place in again}
        results = []
        for key, (piece, number) in zip(keys, numbered, strict=True):
            results.append(made[key] if key[0] else copied(piece.text))
            if key in looped:
                self._notes.add("loop", number % _LATER_PIECE + 1)
            elif not results[-1].finished:
                self._notes.add("unfinished", number % _LATER_PIECE + 1)
        return results

    def _without_loops(
        self, sentences: Sequence[Sequence[int]], numbers: Sequence[int]
    ) -> tuple[list[Translation], set[int]]:
        """The translations, and which of them had to be made again."""
        found = self._decode(sentences, numbers, self._options)
        if not self._retries:
            return found, set()
        # a source that says the same over and over may well have such a translation
        loops = [
            place
            for place, (translation, ids) in enumerate(zip(found, sentences, strict=True))
            if is_loop(translation.tokens, translation.finished) and not is_loop(ids)
        ]
        if loops:
            held = replace(self._options, no_repeat_ngram=RETRY_NGRAM)
            again = self._decode([sentences[place] for place in loops], [numbers[place] for place in loops], held)
            for place, translation in zip(loops, again, strict=True):
                found[place] = translation
        return found, set(loops)

    def _line(self, text: str, segment: Segments, parts: Sequence[Translation], number: int) -> Translation:
        events: dict[Event, bool] = {
            "cut": segment.cut_sentence,
            "long word": segment.copied_word,
            "carriage return": "\r" in text,
        }
        for event, happened in events.items():
            if happened:
                self._notes.add(event, number)
        translation = joined(parts, self._options.length_penalty)
        if parts[0].text != text:
            self._notes.compare(number, *lost(text, translation.text))
        return translation


def _read_ahead(lines: Iterable[str], window: int) -> Iterator[list[str]]:
    """Up to `window` lines together; what was read before an error comes before the error."""
    given = iter(lines)
    while True:
        texts: list[str] = []
        failure: Exception | None = None
        characters = 0
        try:
            for text in islice(given, window):
                texts.append(text)
                characters += len(text)
                if characters > _MOST_CHARACTERS:
                    break
        except Exception as error:
            failure = error
        if texts:
            yield texts
        if failure is not None:
            raise failure
        if not texts:
            return
