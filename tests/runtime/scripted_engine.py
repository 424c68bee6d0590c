"""An engine whose attention and probabilities are written down by a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dikkat.config import build_config
from dikkat_runtime.engine.hypotheses import Memory
from dikkat_runtime.engine.options import log_normalizers, token_scores
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.compiled import token_positions
from dikkat_runtime.text.tokenizer import Tokenizer

Links = Mapping[str, Mapping[str, float]]
"""For words of a target, how much each looks at words of the source."""


def tokenizer_of(texts: Sequence[str]) -> Tokenizer:
    """Learn a tokenizer from these texts."""
    settings = build_config({"tokenizer": {"vocab_size": 400, "min_frequency": 1}})
    return Tokenizer.train(list(texts) * 3, settings.tokenizer)


class ScriptedEngine:
    """Tokens of a target look at the source as `links` say; the logit of a token is the same wherever it stands."""

    info: Any = None

    def __init__(
        self, tokenizer: Tokenizer, links: Mapping[tuple[str, str], Links], logits: Mapping[str, float] | None = None
    ) -> None:
        """`links` are by source and target, `logits` by words of the target, 0 elsewhere."""
        self.steps_taken = 0
        self._rows = {
            (tuple(tokenizer.encode(source)), tuple(tokenizer.encode(target))): attention_of(
                tokenizer, source, target, own
            )
            for (source, target), own in links.items()
        }
        self._logits = np.zeros(tokenizer.vocab_size, np.float32)
        for word, logit in (logits or {}).items():
            self._logits[tokenizer.encode(word)] = logit

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        lengths = tuple(len(source) + 1 for source in sources)
        states = np.full((len(sources), max(lengths), 1), -1.0, np.float32)
        for number, source in enumerate(sources):
            states[number, : len(source), 0] = source
        return Memory(states, lengths)

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[object] = ()) -> Any:
        assert beam_size == 1
        return _Steps(self, memory, self._rows, self._logits)

    def search(self, *arguments: object, **named: object) -> Any:
        raise AssertionError("nothing is searched")


class _Steps:
    limit = None
    forced = 0

    def __init__(self, engine: ScriptedEngine, memory: Memory, rows: Mapping[Any, Array], logits: Array) -> None:
        self._engine, self._rows, self._logits, self._width = engine, rows, logits, memory.states.shape[1]
        self._sources = [
            tuple(map(int, states[: length - 1, 0]))
            for states, length in zip(memory.states, memory.lengths, strict=True)
        ]
        self._owners, self._written = list(range(len(self._sources))), [list[int]() for _ in self._sources]

    def step(self, tokens: Sequence[int], *, scored: bool = True) -> Array:
        self._engine.steps_taken += 1
        for written, token in zip(self._written, tokens, strict=True):
            written += [] if token == BOS_ID else [token]
        return np.tile(self._logits if scored else self._logits[:0], (len(tokens), 1))

    def states(self) -> Array:
        return np.zeros((len(self._owners), 1))

    def project(self, states: Array) -> Array:
        return np.tile(self._logits, (len(states), 1))

    def attention(self) -> Array:
        weights = np.full((len(self._owners), self._width), 1 / self._width)
        for row, (owner, written) in enumerate(zip(self._owners, self._written, strict=True)):
            for (source, target), attention in self._rows.items():
                position = len(written)
                if source == self._sources[owner] and list(target[:position]) == written and position < len(target):
                    weights[row] = 0.0
                    weights[row, : len(source) + 1] = attention[position]
        return weights

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        self._written = [list(self._written[parent]) for parent in parents]
        self._owners = list(owners)

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        return log_normalizers(logits, 1)

    def token_scores(self, logits: Array, tokens: Array) -> Array:
        return token_scores(logits, tokens, 1)


def attention_of(tokenizer: Tokenizer, source: str, target: str, links: Links) -> Array:
    """Return the attention (T, S + 1) of the tokens of a target: as linked, and else on the end mark."""
    (_, sources), (_, targets) = tokenizer.spans(source), tokenizer.spans(target)
    attention = np.zeros((len(targets), len(sources) + 1))
    for word, weights in links.items():
        start = target.index(word)
        for row in token_positions(targets, [(start, start + len(word))]):
            attention[row] = 0.0
            for other, weight in weights.items():
                begin = source.index(other)
                columns = list(token_positions(sources, [(begin, begin + len(other))]))
                attention[row, columns] += weight / len(columns)
    attention[:, -1] = 1 - attention[:, :-1].sum(axis=1)
    return attention
