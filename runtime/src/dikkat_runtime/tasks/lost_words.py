"""Judge whether a translation that had to hold or begin with something has lost words of the free translation.

A text that says the same in other words is distinguished from one that lost a part by reading both once more: each
source token that the free translation looks at must still be looked at, and a demanded term must look at its own
source.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_scores import ForcedScores, forced_scores
from dikkat_runtime.tasks.batches import BATCH_SIZE, length_batches
from dikkat_runtime.tasks.compiled import token_positions
from dikkat_runtime.tasks.confidence_features import words_of
from dikkat_runtime.tasks.term_placement import CLEAR
from dikkat_runtime.text.demanded import Demanded, held_spans
from dikkat_runtime.text.tokenizer import Tokenizer

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
            scores = forced_scores(self._engine, [item.source_ids for item in own for _ in range(2)], ids)
            for index, item, free, bound in zip(batch, own, scores[::2], scores[1::2], strict=True):
                lost[asked[index]] = _falls(free, bound) or self._is_elsewhere(item, free, bound)
        return lost

    def _is_elsewhere(self, item: Rewritten, free: ForcedScores, bound: ForcedScores) -> bool:
        """Return whether a demanded word looks at its source less than the free translation, and not clearly."""
        if not item.demands:
            return False
        source_tokens = self._source.spans(item.source, self._languages[0])[1]
        tokens = self._target.spans(item.text, self._languages[1])[1]
        for demand in item.demands:
            positions = list(token_positions(source_tokens, demand.spans))
            own = list(token_positions(tokens, held_spans(item.text, [demand])))
            before, after = (scores.attention[:, positions].sum(axis=1) for scores in (free, bound))
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
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        kept = sum(block.size for block in blocks)
        return kept < len(before) - count or len(after) > len(before) - count
    in_free, more = Counter(before), Counter(after)
    repeated = sum(1 for word, count in more.items() if count > max(1, in_free[word]))
    return repeated >= REPEATED or len(after) < SHORT * len(before)


def _falls(free: ForcedScores, bound: ForcedScores) -> bool:
    before, after = (scores.attention[:, : free.source_tokens].max(axis=0) for scores in (free, bound))
    return bool(np.max(before - after, initial=0.0) >= UNCOVERED)


def _words(text: str) -> list[str]:
    words = ("".join(filter(str.isalnum, word.text)) for word in words_of(unicodedata.normalize("NFC", text.lower())))
    return [word for word in words if word]
