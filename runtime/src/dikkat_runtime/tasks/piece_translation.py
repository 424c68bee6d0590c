"""Translate pieces of lines, first freely, then under constraints where a demand is not met."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.demand_keeping import DemandKeeper, Rewritten, hypotheses, ranked
from dikkat_runtime.tasks.translations import PieceRequest, PieceResult, Translation
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.glossary import Term
from dikkat_runtime.text.repetition import is_loop

DEMANDING_PENALTY = 1.0
"""Largest length penalty with demanded words; a larger one favours translations that go on until all are written."""
RETRY_NGRAM = 3
"""Size of the n-grams that are not repeated where an output with a loop is decoded again."""

Decode = Callable[[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool], list[Translation]]
"""Returns translations of requests, given a number for each, the options, and whether demands and prefixes bind."""


class PieceTranslator:
    """A translator of pieces by `decode`, whose translations `keeper` changes to hold what is demanded."""

    def __init__(self, decode: Decode, keeper: DemandKeeper, options: DecodingOptions, *, retry: bool) -> None:
        """With `retry`, outputs that repeat themselves in a loop are decoded again under a limit on repetition."""
        self._decode, self._keeper, self._options = decode, keeper, options
        self._retries = retry and not options.limits_repetition
        self._count = options.n_best if isinstance(options, BeamOptions) else 1

    def __call__(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> list[PieceResult]:
        """Return the translation of each request; `numbers` with the seed decide what sampling draws."""
        results = self._begun(requests, numbers)
        bases = {index: (requests[index], result.translation) for index, result in enumerate(results)}
        lacking = self._keeper.lacking(bases)
        if not lacking:
            return results
        bases |= {index: (requests[index], own) for index, own in self._keeper.rewritten(lacking).items()}
        # an alternative that lacks something is left out in the end
        left = {index: bases[index] for index in lacking if self._keeper.unmet(requests[index], bases[index][1].text)}
        if not isinstance(self._options, SamplingOptions):
            bound = dict(zip(left, self._decoded(requests, numbers, list(left), True), strict=True))
            chosen = self._keeper.chosen(left, {index: own for index, (own, _) in bound.items()}, self._count)
            bases |= {index: (requests[index], own) for index, own in chosen.items()}
            for index, (_, looped) in bound.items():
                results[index] = replace(results[index], looped=results[index].looped or looped, forced=True)
        for index in lacking:
            results[index] = self._noted(results[index], *bases[index])
        return results

    def _begun(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> list[PieceResult]:
        """Return the translation of each request without its demands, which begins with its prefix."""
        plain = [PieceRequest(request.text, request.ids) for request in requests]
        free = self._decoded(plain, numbers, range(len(requests)), False)
        results = [PieceResult(*own) for own in free]
        typed = [index for index, request in enumerate(requests) if request.prefix]
        own = {index for index in typed if requests[index].is_begun_by(results[index].translation.text)}
        other = [index for index in typed if index not in own or self._count > 1]
        asked = [replace(request, demands=()) for request in requests]
        for index, (translation, looped) in zip(other, self._decoded(asked, numbers, other, True), strict=True):
            free_first = [results[index].translation] if index in own else []
            others = [item for item in hypotheses(translation) if item.text not in {one.text for one in free_first}]
            best = ranked([*free_first, *others], self._count)
            results[index] = PieceResult(best, looped and index not in own, forced=index not in own)
        for index in own.difference(other):
            translation = replace(results[index].translation, alternatives=())
            results[index] = replace(results[index], translation=translation)
        judged = [index for index in typed if index not in own]
        pairs = [
            Rewritten(requests[index].text, requests[index].ids, free[index][0].text, results[index].translation.text)
            for index in judged
        ]
        for index, lost in zip(judged, self._keeper.loses(pairs) if pairs else (), strict=True):
            translation = replace(results[index].translation, loses_words=lost)
            results[index] = replace(results[index], translation=translation)
        return results

    def _decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], indices: Sequence[int], bound: bool
    ) -> list[tuple[Translation, bool]]:
        """Return the translations of the requests at these indices, and whether each was decoded again.

        Where they are `bound`, all of them have demands, or none: what is demanded of one must not change another.
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

    def _noted(self, result: PieceResult, request: PieceRequest, translation: Translation) -> PieceResult:
        """Return a result with another translation, which names the terms that it does not hold."""
        missing = self._keeper.unmet(request, translation.text)
        if not missing:
            # an alternative without what is demanded is none
            every = [own for own in hypotheses(translation) if not self._keeper.unmet(request, own.text)]
            translation = ranked(every, self._count)
        terms = tuple(_term(demand) for demand in missing if demand.reason == "term")
        return replace(
            result,
            translation=replace(translation, unplaced=terms, loses_words=result.translation.loses_words),
            changed=translation.text != result.translation.text,
            unmet=tuple(missing),
        )


def _term(demand: Demanded) -> Term:
    return Term(demand.source, demand.forms)
