"""Words put into translations that lack them, where the model would write them.

A translator that leaves out a name has said all else. To search again under a constraint costs several times as much,
and often ends in another sentence. So the translation is read once more: at each gap between its words the model tells
how likely the word is there, and which words look at the source before it, and which at the source after it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import forced_steps
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import UNK_ID
from dikkat_runtime.tasks.aligner import balanced, best_run, is_sign, word_spans, word_weights
from dikkat_runtime.tasks.batches import by_length
from dikkat_runtime.tasks.compiled import ConstraintCompiler, token_positions
from dikkat_runtime.text.segmentation import is_spaceless
from dikkat_runtime.text.tokenizer import Tokenizer

ORDER_WEIGHT = 4.0
"""Nats that a token on the right side of the word counts; docs/decisions.md says how it was chosen."""
SENTENCE_END = re.compile(r"[.!?…。！？]\W*\Z")
CLOSING = re.compile(r"[^\w\s]+\s*\Z")
_OPENING = "([{«“‘"


@dataclass(frozen=True, slots=True)
class MissingWord:
    """A word that a translation lacks, and where it stands in the source: start and end of each time."""

    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A translation of a source that lacks words."""

    source: str
    source_ids: tuple[int, ...]
    target: str
    words: tuple[MissingWord, ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the model thinks of a translation of T tokens, with the end mark T + 1, over S source tokens."""

    log_probabilities: Array
    """(T + 1, W): of the first token of each missing word; -inf where the model can write no further."""
    attention: Array
    """(T + 1, S), the end mark of the source left out."""

    def scores(self, word: int, positions: Sequence[int], tokens: Sequence[int]) -> Array:
        """Return how well (G,) a word, which stands at `positions` of the source, stands before each of `tokens`."""
        likely = self.log_probabilities[tokens, word]
        if not positions:
            return np.asarray(likely)
        after = self.attention[:-1, positions[-1] + 1 :].sum(axis=1)
        # (T,): by how much more each token looks at what stands before the word than at what stands after it
        leaning = self.attention[:-1, : positions[0]].sum(axis=1) - after
        before = np.concatenate([[0.0], np.cumsum(leaning)])
        return np.asarray(likely + ORDER_WEIGHT * (2 * before - before[-1])[tokens])


class WordInserter:
    """Inserts words by the scores of one translator."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: tuple[Tokenizer, Tokenizer],
        languages: tuple[str, str],
        compiler: ConstraintCompiler,
    ) -> None:
        """`tokenizers` and `languages` are those of source and target; `compiler` spells words of the target."""
        self._engine, (self._source, self._target), self._languages = engine, tokenizers, languages
        self._compiler = compiler

    def __call__(self, items: Sequence[Incomplete]) -> list[str]:
        """Return each translation with all its missing words, in order."""
        lengths = [len(item.source_ids) for item in items]
        texts = by_length(lengths, lambda batch: self._completed([items[number] for number in batch]))
        return [text or "" for text in texts]

    def gaps(self, source: str, source_ids: tuple[int, ...], target: str, offsets: Sequence[int]) -> list[int]:
        """Return the characters of `target` at which words meet that answer to the words meeting at these of `source`.

        What is written before such a gap looks at the source before it, and what is written after it at the rest.
        """
        item = Incomplete(source, source_ids, target, ())
        written, own = self._target.spans(target, self._languages[1])
        spans = self._source.spans(source, self._languages[0])[1]
        (reading,) = self._readings([item])
        chosen = []
        for offset in offsets:
            before = sum(end <= offset for _, end in spans)
            leaning = reading.attention[:-1, :before].sum(axis=1) - reading.attention[:-1, before:].sum(axis=1)
            total = np.concatenate([[0.0], np.cumsum(leaning)])
            gaps = list(_gaps(written, own, item))
            chosen.append(max(gaps, key=lambda gap: 2 * total[gap[0]] - total[-1])[1])
        return chosen

    def enclosed(
        self, source: str, source_ids: tuple[int, ...], target: str, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Return the characters of `target` from the first to the last word that answers to each span of `source`.

        What stands in another span of the source does so here, and what does not is outside; outer spans come first.
        A span for which no word is left is empty.
        """
        item = Incomplete(source, source_ids, target, ())
        written, own = self._target.spans(target, self._languages[1])
        read, source_tokens = self._source.spans(source, self._languages[0])
        words, sources = ([span for span in word_spans(text) if not is_sign(text, span)] for text in (written, read))
        if not words:
            return [(0, len(written)) for _ in spans]
        (reading,) = self._readings([item])
        shares = word_weights(reading.attention[:-1], (words, sources), (own, source_tokens))
        weights = balanced(shares, [False] * len(words), [False] * len(sources))
        chosen = list[tuple[int, int]]()
        for start, end in spans:
            inside = np.array([start < last and first < end for first, last in sources], bool)
            # in thousandths: the last digits of sums are not the same everywhere
            gains = np.rint(1000 * (2 * weights[:, inside].sum(axis=1) - weights.sum(axis=1)))
            free = np.ones(len(words), bool)
            for (begin, stop), (first, last) in zip(spans, chosen, strict=False):
                if begin <= start and end <= stop:
                    free[:first] = free[last:] = False
                else:
                    free[first:last] = False
            (first, last), _ = best_run(gains, free)
            if first == last and free.any():
                first = int(np.where(free, gains, -np.inf).argmax())
                last = first + 1
            chosen.append((first, last))
        return [(words[first][0], words[last - 1][1]) if last else (words[-1][1],) * 2 for first, last in chosen]

    def align(self, source: str, target: str) -> Array:
        """Return weights (T, S) of the words of a translation on those of its source; rows sum to one, or are zero."""
        words, ids = (word_spans(target), word_spans(source)), self._source.encode(source, self._languages[0])
        if not ids:
            return np.zeros((len(words[0]), len(words[1])), np.float32)
        (reading,) = self._readings([Incomplete(source, tuple(ids), target, ())])
        tokens = self._target.spans(target, self._languages[1])[1], self._source.spans(source, self._languages[0])[1]
        return word_weights(reading.attention[:-1], words, tokens)

    def _completed(self, items: Sequence[Incomplete]) -> list[str]:
        spans = [self._target.spans(item.target, self._languages[1]) for item in items]
        completed = []
        for item, (written, own), reading in zip(items, spans, self._readings(items), strict=True):
            gaps = list(_gaps(written, own, item))
            tokens = [token for token, _ in gaps]
            source_spans = self._source.spans(item.source, self._languages[0])[1]
            best = [
                int(reading.scores(number, token_positions(source_spans, word.spans), tokens).argmax())
                for number, word in enumerate(item.words)
            ]
            completed.append(_inserted(written, item.words, [gaps[number][1] for number in best]))
        return completed

    def _readings(self, items: Sequence[Incomplete]) -> list[_Reading]:
        memory = self._engine.encode([item.source_ids for item in items])
        ids = self._target.encode_batch([item.target for item in items], self._languages[1])
        firsts = [[self._first_token(word.text) for word in item.words] for item in items]
        readings = [
            _Reading(np.full((len(own) + 1, len(first)), -np.inf), np.zeros((len(own) + 1, len(item.source_ids))))
            for item, own, first in zip(items, ids, firsts, strict=True)
        ]
        scored = any(firsts)
        for step in forced_steps(self._engine, memory, ids, scored=scored):
            attention = step.steps.attention()
            largest, log_sums = step.normalizers if scored else (attention, attention)
            for row, number in enumerate(step.targets):
                own = readings[number]
                own.attention[step.position] = attention[row, : own.attention.shape[1]]
                if scored:
                    likely = step.logits[row, firsts[number]] - largest[row] - log_sums[row]
                    own.log_probabilities[step.position] = likely
        return readings

    def _first_token(self, word: str) -> int:
        tokens = self._compiler.after_space(word)
        return tokens[0] if tokens else UNK_ID


def _gaps(written: str, spans: Sequence[tuple[int, int]], item: Incomplete) -> Iterator[tuple[int, int]]:
    """Yield token and character after each gap for a word: before words, before signs that close the text, after it."""
    closing = CLOSING.search(written)
    offsets = set[int]()
    for number, (start, end) in enumerate(spans):
        offset = end - len(written[start:end].lstrip())
        if offset >= end or offset in offsets:
            continue
        adjacent = written[max(0, offset - 1) : offset + 1]
        begins = offset == 0 or adjacent[0].isspace() or any(map(is_spaceless, adjacent))
        if begins or (closing is not None and offset == closing.start()):
            offsets.add(offset)
            yield number, offset
    word_is_last = any(end == len(item.source) for word in item.words for _, end in word.spans)
    if not offsets or word_is_last or not SENTENCE_END.search(written):
        yield len(spans), len(written)


def _inserted(written: str, words: Sequence[MissingWord], offsets: Sequence[int]) -> str:
    """Return a text with words at characters, those at the same one in the order of the source."""
    order = sorted(range(len(words)), key=lambda number: (offsets[number], words[number].spans), reverse=True)
    for number in order:
        written = _with_word(written, words[number].text, offsets[number])
    return written


def _with_word(text: str, word: str, offset: int) -> str:
    """Return a text with a word at a character, parted by spaces from words, and from what stood after a space."""
    before, after = text[:offset], text[offset:]
    is_after_space = before[-1:].isspace()
    if before and not is_after_space and before[-1] not in _OPENING:
        before += " "
    if after[:1].isalnum() or (after and (after[0] in _OPENING or (is_after_space and not after[0].isspace()))):
        after = f" {after}"
    return before + word + after
