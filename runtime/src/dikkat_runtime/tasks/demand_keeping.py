"""Make translations hold what is demanded without losing their other words.

What a translation lacks is put into it: placeholders and measures between its words, terms in place of the words that
translate their source. Only where this fails the search runs under constraints, and its output counts where it lost no
words. Else the translation stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TypeVar

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.tasks.batches import BATCH_SIZE, length_batches
from dikkat_runtime.tasks.compiled import token_positions
from dikkat_runtime.tasks.confidence import words_of
from dikkat_runtime.tasks.insertion import Incomplete, MissingWord
from dikkat_runtime.tasks.term_placement import CLEAR, Lacking
from dikkat_runtime.tasks.translations import PieceRequest, PieceResult, Translation
from dikkat_runtime.text.demanded import Demanded, held_spans, unmet
from dikkat_runtime.text.glossary import Term
from dikkat_runtime.text.repetition import is_loop
from dikkat_runtime.text.tokenizer import Tokenizer

# Judge whether a translation that had to hold or begin with something has lost words of the free translation.


UNCOVERED = 0.7
"""Fall of the attention on a source token from which a word is lost; docs/decisions.md says how all were chosen."""
SHORT = 0.75
"""Share of the words of the free translation below which some are lost."""
REPEATED = 2
"""Words which the free translation has less often, from which on a translation repeats itself."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A translation that had to hold terms or begin with something, and the free one."""

    source: str
    source_ids: tuple[int, ...]
    free: str
    text: str
    demands: tuple[Demanded, ...] = ()


class LossJudge:
    """Judges by the attention of one translator."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` and `languages` are those of source and target."""
        self._engine, (self._source, self._target), self._languages = engine, tokenizers, languages

    def __call__(self, items: Sequence[Rewritten]) -> list[bool]:
        """Return for each translation whether it lost words."""
        lost = [counts_differ(item) for item in items]
        asked = [number for number, item in enumerate(items) if not lost[number] and item.free != item.text]
        for batch in length_batches([len(items[number].source_ids) for number in asked], BATCH_SIZE // 2):
            own = [items[asked[index]] for index in batch]
            texts = [text for item in own for text in (item.free, item.text)]
            ids = self._target.encode_batch(texts, self._languages[1])
            memory = self._engine.encode([item.source_ids for item in own for _ in range(2)])
            scores = forced_scores(self._engine, memory, ids, scored=False)
            for index, item, *both in zip(batch, own, scores[::2], scores[1::2], strict=True):
                free, bound = (one.attention[:, : len(item.source_ids)] for one in both)
                fall = np.max(free.max(axis=0) - bound.max(axis=0), initial=0.0)
                lost[asked[index]] = bool(fall >= UNCOVERED) or self._is_elsewhere(item, free, bound)
        return lost

    def _is_elsewhere(self, item: Rewritten, free: Array, bound: Array) -> bool:
        """Return whether a demanded word looks at its source less than the free translation, and not clearly."""
        if not item.demands:
            return False
        source_tokens = self._source.spans(item.source, self._languages[0])[1]
        tokens = self._target.spans(item.text, self._languages[1])[1]
        for demand in item.demands:
            positions = list(token_positions(source_tokens, demand.spans))
            own = list(token_positions(tokens, held_spans(item.text, [demand])))
            before, after = (looks[:, positions].sum(axis=1) for looks in (free, bound))
            if max(after[own], default=0.0) < min(CLEAR, max(before, default=0.0)):
                return True
        return False


def counts_differ(item: Rewritten) -> bool:
    """Return whether the words of both texts, counted, show that some are lost or repeated."""
    before, after = _words(item.free), _words(item.text)
    if item.demands:
        forms = {word for demand in item.demands for form in demand.forms for word in _words(form)}
        count = sum(demand.count for demand in item.demands)
        after = [word for word in after if not any(map(word.startswith, forms))]
        before = [word for word in before if not any(map(word.startswith, forms))]
        kept = sum(block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks())
        return kept < len(before) - count or len(after) > len(before) - count
    in_free, more = Counter(before), Counter(after)
    repeated = sum(1 for word, count in more.items() if count > max(1, in_free[word]))
    return repeated >= REPEATED or len(after) < SHORT * len(before)


def _words(text: str) -> list[str]:
    words = ("".join(filter(str.isalnum, word[0])) for word in words_of(unicodedata.normalize("NFC", text.lower())))
    return [word for word in words if word]


Insert = Callable[[Sequence[Incomplete]], Sequence[str]]
"""From translations that lack words to the texts that hold them."""
PutTerms = Callable[[Sequence[Lacking]], Sequence[str | None]]
"""From translations that lack terms to the texts that hold them, None where no word clearly gives way."""
Loses = Callable[[Sequence[Rewritten]], Sequence[bool]]
"""Tells which translations have lost words of the free ones."""
Translated = Mapping[int, tuple[PieceRequest, Translation]]
"""Translations with their requests, by number."""


@dataclass(frozen=True, slots=True)
class DemandKeeper:
    """Changes translations until they hold what their requests demand."""

    insert: Insert
    put_terms: PutTerms
    loses: Loses
    suffixes: bool
    """True if the suffixes of Turkish nouns may stand after a term."""

    def unmet(self, request: PieceRequest, text: str) -> list[Demanded]:
        """Return the demands of a request that a text does not meet."""
        return unmet(text, request.demands, suffixes=self.suffixes) if request.demands else []

    def lacking(self, translated: Translated) -> dict[int, tuple[PieceRequest, Translation]]:
        """Return those that have a hypothesis which does not meet its demands."""
        return {
            index: (request, translation)
            for index, (request, translation) in translated.items()
            if request.demands and any(self.unmet(request, own.text) for own in hypotheses(translation))
        }

    def rewritten(self, translated: Translated) -> dict[int, Translation]:
        """Return the translations with the words that they lack, as far as these can be put into them."""
        results = {index: translation for index, (_, translation) in translated.items()}
        for rewrite in (self._completed, self._placed):
            rows = [
                (index, rank, translated[index][0], own.text)
                for index, translation in results.items()
                for rank, own in enumerate(hypotheses(translation))
            ]
            texts: dict[int, dict[int, str]] = {}
            for (index, rank, _, _), text in rewrite(rows):
                texts.setdefault(index, {})[rank] = text
            results |= {index: _with_texts(results[index], own) for index, own in texts.items()}
        return results

    def _completed(self, rows: Sequence[_Row]) -> list[tuple[_Row, str]]:
        """Return the texts that only lacked placeholders and measures, with these words."""
        chosen: list[tuple[_Row, Incomplete]] = []
        for row in rows:
            _, _, request, text = row
            missing = [demand for demand in self.unmet(request, text) if demand.reason != "term"]
            if missing and all(_is_absent(demand, text) for demand in missing):
                words = tuple(MissingWord(demand.forms[0], demand.spans) for demand in missing)
                chosen.append((row, Incomplete(request.text, request.ids, text, words)))
        texts = self.insert([item for _, item in chosen]) if chosen else ()
        return [
            (row, text)
            for (row, _), text in zip(chosen, texts, strict=True)
            if row[2].is_begun_by(text) or not row[2].is_begun_by(row[3])
        ]

    def _placed(self, rows: Sequence[_Row]) -> list[tuple[_Row, str]]:
        """Return the texts that lacked terms, with the terms in place of other words."""
        chosen: list[tuple[_Row, Lacking]] = []
        for row in rows:
            _, _, request, text = row
            missing = tuple(demand for demand in self.unmet(request, text) if demand.reason == "term")
            if missing:
                kept = tuple(demand for demand in request.demands if demand not in missing)
                chosen.append((row, Lacking(request.text, request.ids, text, missing, kept, len(request.prefix))))
        texts = self.put_terms([item for _, item in chosen]) if chosen else ()
        return [
            (row, text)
            for (row, item), text in zip(chosen, texts, strict=True)
            if text is not None and not any(demand in item.terms for demand in self.unmet(row[2], text))
        ]

    def chosen(self, free: Translated, bound: Mapping[int, Translation], count: int) -> dict[int, Translation]:
        """Return the translations of a search under constraints that meet all demands and lost no words.

        They come with at most `count` - 1 alternatives that do so too. Where words are the price of a term, only what
        is demanded besides terms counts.
        """
        candidates = {
            index: [own for own in _distinct(translation) if not self.unmet(free[index][0], own.text)]
            for index, translation in bound.items()
        }
        items = [
            (index, own, Rewritten(request.text, request.ids, base.text, own.text, terms))
            for index, (request, base) in free.items()
            for terms in [tuple(demand for demand in request.demands if demand.reason == "term")]
            for own in candidates.get(index, ())
            if any(demand in terms for demand in self.unmet(request, base.text))
        ]
        losses = self.loses([item for _, _, item in items]) if items else ()
        lost = {(index, own.text) for (index, own, _), is_lost in zip(items, losses, strict=True) if is_lost}
        results = {}
        for index, own in candidates.items():
            kept = [candidate for candidate in own if (index, candidate.text) not in lost]
            request, base = free[index]
            if not kept and any(demand.reason != "term" for demand in self.unmet(request, base.text)):
                kept = own
            if kept:
                results[index] = ranked(kept, count)
        return results


_Row = tuple[int, int, PieceRequest, str]
"""The number of a translation, the rank of one of its hypotheses, its request, and the text."""


def hypotheses(translation: Translation) -> tuple[Translation, ...]:
    return translation, *translation.alternatives


def ranked(candidates: Sequence[Translation], count: int) -> Translation:
    """Return the first translation, with the next ones as alternatives, `count` in all."""
    others = tuple(replace(candidate, alternatives=()) for candidate in candidates[1:count])
    return replace(candidates[0], alternatives=others)


def _distinct(translation: Translation) -> list[Translation]:
    """Return the hypotheses of a translation, each text once, the best first."""
    every = {candidate.text: candidate for candidate in reversed(hypotheses(translation))}
    return list(reversed(every.values()))


def _with_texts(translation: Translation, texts: Mapping[int, str]) -> Translation:
    """Return a translation in which the hypotheses of these ranks, 0 for the best, have other texts."""
    best, *others = (
        replace(candidate, text=texts.get(rank, candidate.text))
        for rank, candidate in enumerate(hypotheses(translation))
    )
    return replace(best, alternatives=tuple(others))


def _is_absent(demand: Demanded, text: str) -> bool:
    """Return whether a text lacks a placeholder or a measure altogether, so that it can be put into it."""
    if demand.count != 1:
        return False
    if demand.reason == "number":
        digits = "".join(filter(str.isdigit, demand.forms[0]))
        return digits not in "".join(filter(str.isdigit, text))
    return not re.search(rf"(?<!\w){re.escape(demand.forms[0])}(?!\w)", text, re.IGNORECASE)


DEMANDING_PENALTY = 1.0
"""Largest length penalty with demanded words; a larger one favours translations that go on until all are written."""
RETRY_NGRAM = 3
"""Size of the n-grams that are not repeated where an output with a loop is decoded again."""

Asked = tuple[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool]
"""Requests, a number for each, the options, and whether demands and prefixes bind."""
Decode = Callable[[Sequence[PieceRequest], Sequence[int], DecodingOptions, bool], list[Translation]]
"""Returns the translations of what is `Asked`."""
Answer = TypeVar("Answer")
Steps = Generator[Asked, list[Translation] | None, Answer]
"""Yields what is asked, is sent the translations, and returns an answer in the end."""


def answered_together(
    steps: Sequence[Steps[Answer]], decode: Callable[[Mapping[int, Asked]], Iterable[list[Translation]]]
) -> list[Answer]:
    """Return what steps return whose questions `decode` answers, by their numbers, all that are alike at once.

    What is bound is asked alone: what is demanded of one translation must not change another.
    """
    answers, asked = dict[int, Answer](), dict[int, Asked]()
    answered: dict[int, list[Translation] | None] = dict.fromkeys(range(len(steps)))
    while True:
        for number, translations in answered.items():
            try:
                asked[number] = steps[number].send(translations)
            except StopIteration as end:
                answers[number] = end.value
        if not asked:
            return [answers[number] for number in range(len(steps))]
        _, _, *how = next(iter(asked.values()))
        alike = [number for number, one in asked.items() if [*one[2:]] == how]
        chosen = {number: asked.pop(number) for number in (alike[:1] if how[1] else alike)}
        answered = dict(zip(chosen, decode(chosen), strict=True))


class PieceTranslator:
    """A translator of pieces, whose translations `keeper` changes to hold what is demanded."""

    def __init__(self, keeper: DemandKeeper, options: DecodingOptions, *, retry: bool) -> None:
        """With `retry`, outputs that repeat themselves in a loop are decoded again under a limit on repetition."""
        self._keeper, self._options = keeper, options
        self._retries = retry and not options.limits_repetition
        self._count = options.n_best if isinstance(options, BeamOptions) else 1

    def __call__(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> Steps[list[PieceResult]]:
        """Return the translation of each request; `numbers` with the seed decide what sampling draws."""
        results = yield from self._begun(requests, numbers)
        bases = {index: (requests[index], result.translation) for index, result in enumerate(results)}
        lacking = self._keeper.lacking(bases)
        if not lacking:
            return results
        bases |= {index: (requests[index], own) for index, own in self._keeper.rewritten(lacking).items()}
        # an alternative that lacks something is left out in the end
        left = {index: bases[index] for index in lacking if self._keeper.unmet(requests[index], bases[index][1].text)}
        if not isinstance(self._options, SamplingOptions):
            bound = dict(zip(left, (yield from self._decoded(requests, numbers, list(left), True)), strict=True))
            chosen = self._keeper.chosen(left, {index: own for index, (own, _) in bound.items()}, self._count)
            bases |= {index: (requests[index], own) for index, own in chosen.items()}
            for index, (_, looped) in bound.items():
                results[index] = replace(results[index], looped=results[index].looped or looped)
        for index in lacking:
            results[index] = self._noted(results[index], *bases[index])
        return results

    def _begun(self, requests: Sequence[PieceRequest], numbers: Sequence[int]) -> Steps[list[PieceResult]]:
        """Return the translation of each request without its demands, which begins with its prefix."""
        plain = [PieceRequest(request.text, request.ids) for request in requests]
        free = yield from self._decoded(plain, numbers, range(len(requests)), False)
        results = [PieceResult(*own) for own in free]
        typed = [index for index, request in enumerate(requests) if request.prefix]
        own = {index for index in typed if requests[index].is_begun_by(results[index].translation.text)}
        other = [index for index in typed if index not in own or self._count > 1]
        asked = [replace(request, demands=()) for request in requests]
        decoded = yield from self._decoded(asked, numbers, other, True)
        for index, (translation, looped) in zip(other, decoded, strict=True):
            free_first = [results[index].translation] if index in own else []
            others = [item for item in hypotheses(translation) if item.text not in {one.text for one in free_first}]
            results[index] = PieceResult(ranked([*free_first, *others], self._count), looped and index not in own)
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
    ) -> Steps[list[tuple[Translation, bool]]]:
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
        translations = (yield chosen, own, options, bound) or []
        loops = [
            index
            for index, (translation, request) in enumerate(zip(translations, chosen, strict=True))
            # a source that repeats itself may have a translation that does
            if self._retries and is_loop(translation.tokens, translation.finished) and not is_loop(request.ids)
        ]
        if loops:
            held = replace(options, no_repeat_ngram=RETRY_NGRAM)
            again = yield [chosen[index] for index in loops], [own[index] for index in loops], held, bound
            for index, translation in zip(loops, again or [], strict=True):
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
        terms = tuple(Term(demand.source, demand.forms) for demand in missing if demand.reason == "term")
        return replace(
            result,
            translation=replace(translation, unplaced=terms, loses_words=result.translation.loses_words),
            changed=translation.text != result.translation.text,
            unmet=tuple(missing),
        )
