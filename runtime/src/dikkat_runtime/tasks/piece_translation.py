"""Pieces of lines translated: freely first, and under constraints where something is demanded that did not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.text.demanded import Demanded, unmet
from dikkat_runtime.text.repetition import is_loop

RETRY_NGRAM = 3
"""Tokens that must not stand twice where an output that went round in a loop is decoded again."""


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """What is to be translated; equal ones have equal translations."""

    text: str
    ids: tuple[int, ...]
    """Of the text, without an end mark."""
    prefix: str = ""
    """What the translation begins with."""
    demands: tuple[Demanded, ...] = ()
    """What it must hold."""
    is_closed: bool = False
    """Whether the last word of the prefix is whole."""


@dataclass(frozen=True, slots=True)
class PieceResult:
    """A translation, and how it came to be."""

    translation: Translation
    looped: bool = False
    """Whether it went round in a loop at first."""
    forced: bool = False
    """Whether something had to be demanded of the search."""
    unmet: tuple[Demanded, ...] = ()
    """What it does not hold all the same."""


Decode = Callable[[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool], list[Translation]]
"""From requests, a number for each, the options, and whether demands and prefixes are to be met, to translations."""


class PieceTranslator:
    """Translates pieces by `decode`."""

    def __init__(self, decode: Decode, options: DecodingOptions, *, retry: bool, suffixes: bool) -> None:
        """With `retry`, outputs that went round in a loop are decoded again under a limit on repetition.

        With `suffixes` those of Turkish nouns may stand behind what is demanded.
        """
        self._decode, self._options, self._suffixes = decode, options, suffixes
        self._retries = retry and not options.limits_repetition

    def __call__(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> list[PieceResult]:
        """The translation of each; `numbers` with the seed decide what sampling draws."""
        results: dict[int, PieceResult] = {}
        free = [place for place, request in enumerate(requests) if not request.prefix]
        for place, (translation, looped) in zip(free, self._decoded(requests, numbers, free, False), strict=True):
            results[place] = PieceResult(translation, looped)
        bound = [place for place, request in enumerate(requests) if request.prefix]
        if not isinstance(self._options, SamplingOptions):
            bound += [place for place in free if not self._is_met(requests[place], results[place].translation)]
        for place, (translation, looped) in zip(bound, self._decoded(requests, numbers, bound, True), strict=True):
            results[place] = PieceResult(self._best(requests[place], translation), looped, forced=True)
        return [self._told(request, results[place]) for place, request in enumerate(requests)]

    def _decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], places: Sequence[int], bound: bool
    ) -> list[tuple[Translation, bool]]:
        """The translations of the requests at these places, and whether each had to be made again."""
        if not places:
            return []
        options = self._options
        if bound and isinstance(options, BeamOptions):
            # the more there are, the surer one holds everything exactly as demanded
            options = replace(options, n_best=options.beam_size)
        chosen, own = [requests[place] for place in places], [numbers[place] for place in places]
        found = self._decode(chosen, own, options, bound)
        loops = [
            place
            for place, (translation, request) in enumerate(zip(found, chosen, strict=True))
            # a source that says the same over and over may well have such a translation
            if self._retries and is_loop(translation.tokens, translation.finished) and not is_loop(request.ids)
        ]
        if loops:
            held = replace(options, no_repeat_ngram=RETRY_NGRAM)
            again = self._decode([chosen[place] for place in loops], [own[place] for place in loops], held, bound)
            for place, translation in zip(loops, again, strict=True):
                found[place] = translation
        looped = set(loops)
        return [(translation, place in looped) for place, translation in enumerate(found)]

    def _is_met(self, request: PieceRequest, translation: Translation) -> bool:
        every = (translation, *translation.alternatives)
        return not request.demands or not any(self._unmet(request, each) for each in every)

    def _unmet(self, request: PieceRequest, translation: Translation) -> list[Demanded]:
        return unmet(translation.text, request.demands, suffixes=self._suffixes)

    def _best(self, request: PieceRequest, translation: Translation) -> Translation:
        """Those that hold what is demanded, as many as were asked for, each text once; else the best one."""
        every = {each.text: each for each in reversed((translation, *translation.alternatives))}
        ranked = [each for each in reversed(every.values()) if not self._unmet(request, each)] or [translation]
        count = self._options.n_best if isinstance(self._options, BeamOptions) else 1
        return replace(ranked[0], alternatives=tuple(replace(each, alternatives=()) for each in ranked[1:count]))

    def _told(self, request: PieceRequest, result: PieceResult) -> PieceResult:
        left = self._unmet(request, result.translation) if request.demands else []
        return replace(result, unmet=tuple(left)) if left else result
