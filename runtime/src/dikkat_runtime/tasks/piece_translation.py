"""Translate pieces of lines, first freely, then under constraints where a demand is not met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.text.demanded import Demanded, unmet
from dikkat_runtime.text.repetition import is_loop

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


Decode = Callable[[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool], list[Translation]]
"""Returns translations of requests, given a number for each, the options, and whether demands and prefixes bind."""


class PieceTranslator:
    """A translator of pieces by `decode`."""

    def __init__(self, decode: Decode, options: DecodingOptions, *, retry: bool, suffixes: bool) -> None:
        """With `retry`, outputs that repeat themselves in a loop are decoded again under a limit on repetition.

        With `suffixes` those of Turkish nouns may stand behind a demanded word.
        """
        self._decode, self._options, self._suffixes = decode, options, suffixes
        self._retries = retry and not options.limits_repetition

    def __call__(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> list[PieceResult]:
        """Return the translation of each request; `numbers` with the seed decide what sampling draws."""
        results: dict[int, PieceResult] = {}
        free = [index for index, request in enumerate(requests) if not request.prefix]
        for index, (translation, looped) in zip(free, self._decoded(requests, numbers, free, False), strict=True):
            results[index] = PieceResult(translation, looped)
        bound = [index for index, request in enumerate(requests) if request.prefix]
        if not isinstance(self._options, SamplingOptions):
            bound += [index for index in free if not self._is_met(requests[index], results[index].translation)]
        for index, (translation, looped) in zip(bound, self._decoded(requests, numbers, bound, True), strict=True):
            results[index] = PieceResult(self._best(requests[index], translation), looped, forced=True)
        return [self._noted(request, results[index]) for index, request in enumerate(requests)]

    def _decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], indices: Sequence[int], bound: bool
    ) -> list[tuple[Translation, bool]]:
        """Return the translations of the requests at these indices, and whether each was decoded again."""
        if not indices:
            return []
        options = self._options
        if bound and isinstance(options, BeamOptions):
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

    def _is_met(self, request: PieceRequest, translation: Translation) -> bool:
        every = (translation, *translation.alternatives)
        return not request.demands or not any(self._unmet(request, candidate) for candidate in every)

    def _unmet(self, request: PieceRequest, translation: Translation) -> list[Demanded]:
        return unmet(translation.text, request.demands, suffixes=self._suffixes)

    def _best(self, request: PieceRequest, translation: Translation) -> Translation:
        """Return the translation that meets the demands, with others that do as alternatives; else the best one."""
        every = {candidate.text: candidate for candidate in reversed((translation, *translation.alternatives))}
        ranked = [candidate for candidate in reversed(every.values()) if not self._unmet(request, candidate)] or [
            translation
        ]
        count = self._options.n_best if isinstance(self._options, BeamOptions) else 1
        return replace(
            ranked[0], alternatives=tuple(replace(candidate, alternatives=()) for candidate in ranked[1:count])
        )

    def _noted(self, request: PieceRequest, result: PieceResult) -> PieceResult:
        left = self._unmet(request, result.translation) if request.demands else []
        return replace(result, unmet=tuple(left)) if left else result
