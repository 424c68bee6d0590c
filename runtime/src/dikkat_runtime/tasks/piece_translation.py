"""Translate pieces of lines, first freely, then under constraints where a demand is not met."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.insertion import Incomplete, MissingWord
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.text.demanded import Demanded, unmet
from dikkat_runtime.text.repetition import is_loop

DEMANDING_PENALTY = 1.0
"""Largest length penalty with demanded words; a larger one favours translations that go on until all are written."""
RETRY_NGRAM = 3
"""Size of the n-grams that are not repeated where an output with a loop is decoded again."""


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """A text to translate with its conditions; equal requests have equal translations."""

    text: str
    ids: tuple[int, ...]
    """Ids of the text, without an end mark."""
    prefix: str = ""
    """The beginning of the translation."""
    demands: tuple[Demanded, ...] = ()
    """Words that the translation must hold."""
    is_closed: bool = False
    """True if the last word of the prefix is whole."""


@dataclass(frozen=True, slots=True)
class PieceResult:
    """A translation, and how it was decoded."""

    translation: Translation
    looped: bool = False
    """True if the first output repeated itself in a loop."""
    forced: bool = False
    """True if the search ran under constraints."""
    unmet: tuple[Demanded, ...] = ()
    """Demands that the translation still does not meet."""


Insert = Callable[[Sequence[Incomplete]], Sequence[str]]
"""From translations that lack words to the texts that hold them."""
Decode = Callable[[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool], list[Translation]]
"""Returns translations of requests, given a number for each, the options, and whether demands and prefixes bind."""


class PieceTranslator:
    """A translator of pieces by `decode`, which puts words that a translation lacks into it by `insert`."""

    def __init__(
        self, decode: Decode, insert: Insert, options: DecodingOptions, *, retry: bool, suffixes: bool
    ) -> None:
        """With `retry`, outputs that repeat themselves in a loop are decoded again under a limit on repetition.

        With `suffixes` those of Turkish nouns may stand behind a demanded word.
        """
        self._decode, self._insert, self._options, self._suffixes = decode, insert, options, suffixes
        self._retries = retry and not options.limits_repetition

    def __call__(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> list[PieceResult]:
        """Return the translation of each request; `numbers` with the seed decide what sampling draws."""
        results: dict[int, PieceResult] = {}
        free = [index for index, request in enumerate(requests) if not request.prefix]
        for index, (translation, looped) in zip(free, self._decoded(requests, numbers, free, False), strict=True):
            results[index] = PieceResult(translation, looped)
        lacking = self._lacking(requests, results)
        completed = self._completed(requests, results, lacking)
        results |= completed
        lacking = {index: own for index, own in lacking.items() if index not in completed}
        lacking |= self._lacking(requests, completed)
        bound = [index for index, request in enumerate(requests) if request.prefix]
        if not isinstance(self._options, SamplingOptions):
            bound += lacking
        for demands in (False, True):
            # apart, since what is demanded of one must not change another
            own = [index for index in bound if bool(requests[index].demands) == demands]
            for index, (translation, looped) in zip(own, self._decoded(requests, numbers, own, True), strict=True):
                results[index] = PieceResult(self._best(requests[index], translation), looped, forced=True)
        for index in dict.fromkeys([*bound, *lacking]):
            unmet = tuple(self._unmet(requests[index], results[index].translation))
            results[index] = replace(results[index], unmet=unmet)
        return [results[index] for index in range(len(requests))]

    def _decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], indices: Sequence[int], bound: bool
    ) -> list[tuple[Translation, bool]]:
        """Return the translations of the requests at these indices, and whether each was decoded again.

        Where they are `bound`, all of them have demands, or none.
        """
        if not indices:
            return []
        options = self._options
        if bound and requests[indices[0]].demands:
            options = replace(options, length_penalty=min(options.alpha, DEMANDING_PENALTY))
            if isinstance(options, BeamOptions):
                # the more candidates, the likelier one meets every demand exactly
                options = replace(options, n_best=options.beam_size)
        chosen, own = [requests[index] for index in indices], [numbers[index] for index in indices]
        translations = self._decode(chosen, own, options, bound)
        loops = [
            index
            for index, (translation, request) in enumerate(zip(translations, chosen, strict=True))
            # a source that repeats itself may have a translation that does
            if self._retries and is_loop(translation.tokens, translation.finished) and not is_loop(request.ids)
        ]
        if loops:
            held = replace(options, no_repeat_ngram=RETRY_NGRAM)
            again = self._decode([chosen[index] for index in loops], [own[index] for index in loops], held, bound)
            for index, translation in zip(loops, again, strict=True):
                translations[index] = translation
        looped = set(loops)
        return [(translation, index in looped) for index, translation in enumerate(translations)]

    def _lacking(
        self, requests: Sequence[PieceRequest], results: Mapping[int, PieceResult]
    ) -> dict[int, list[list[Demanded]]]:
        """Return the demands that each hypothesis of a result does not meet, for results with such a hypothesis."""
        lacking = {}
        for index, result in results.items():
            if requests[index].demands:
                own = [self._unmet(requests[index], candidate) for candidate in _hypotheses(result.translation)]
                if any(own):
                    lacking[index] = own
        return lacking

    def _completed(
        self,
        requests: Sequence[PieceRequest],
        results: Mapping[int, PieceResult],
        lacking: Mapping[int, Sequence[Sequence[Demanded]]],
    ) -> dict[int, PieceResult]:
        """Return the results that only lacked words, with these words; no search is needed for them."""
        incomplete = [
            (index, rank, Incomplete(requests[index].text, requests[index].ids, candidate.text, _words(missing)))
            for index, own in lacking.items()
            for rank, (candidate, missing) in enumerate(zip(_hypotheses(results[index].translation), own, strict=True))
            if missing and all(_is_absent(demand, candidate.text) for demand in missing)
        ]
        texts: dict[int, dict[int, str]] = {}
        completed = self._insert([candidate for _, _, candidate in incomplete]) if incomplete else ()
        for (index, rank, _), text in zip(incomplete, completed, strict=True):
            texts.setdefault(index, {})[rank] = text
        return {
            index: replace(results[index], translation=_rewritten(results[index].translation, own))
            for index, own in texts.items()
        }

    def _unmet(self, request: PieceRequest, translation: Translation) -> list[Demanded]:
        return unmet(translation.text, request.demands, suffixes=self._suffixes) if request.demands else []

    def _best(self, request: PieceRequest, translation: Translation) -> Translation:
        """Return the translation that meets the demands, with others that do as alternatives; else the best one."""
        every = {candidate.text: candidate for candidate in reversed(_hypotheses(translation))}
        ranked = [candidate for candidate in reversed(every.values()) if not self._unmet(request, candidate)] or [
            translation
        ]
        count = self._options.n_best if isinstance(self._options, BeamOptions) else 1
        return replace(
            ranked[0], alternatives=tuple(replace(candidate, alternatives=()) for candidate in ranked[1:count])
        )


def _hypotheses(translation: Translation) -> tuple[Translation, ...]:
    """Return a translation and its alternatives."""
    return translation, *translation.alternatives


def _rewritten(translation: Translation, texts: Mapping[int, str]) -> Translation:
    """Return a translation in which the hypotheses of these ranks, 0 for the best, have other texts."""
    best, *others = (
        replace(candidate, text=texts.get(rank, candidate.text))
        for rank, candidate in enumerate(_hypotheses(translation))
    )
    return replace(best, alternatives=tuple(others))


def _words(missing: Sequence[Demanded]) -> tuple[MissingWord, ...]:
    return tuple(MissingWord(demand.forms[0], demand.spans) for demand in missing)


def _is_absent(demand: Demanded, text: str) -> bool:
    """Return whether a text lacks a placeholder or a measure altogether, so that it can be put into it."""
    if demand.reason == "term" or demand.count != 1:
        return False
    if demand.reason == "number":
        digits = "".join(filter(str.isdigit, demand.forms[0]))
        return digits not in "".join(filter(str.isdigit, text))
    return not re.search(rf"(?<!\w){re.escape(demand.forms[0])}(?!\w)", text, re.IGNORECASE)
