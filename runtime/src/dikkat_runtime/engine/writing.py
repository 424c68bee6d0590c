"""Continue rows of tokens side by side, one token a step, in memory of constant size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.repetition import completing_tokens, penalize
from dikkat_runtime.engine.sampling import draw
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.native.arrays import Array

NextLogits = Callable[[Array, KeyValueCache], Array]
"""From tokens (R, T) and what was read before them to the logits (R, V) of the next."""


class NativeWriter:
    """A writer of R rows that begin with `prompts` (R, P); see `WritingEngine.write`."""

    def __init__(
        self,
        next_logits: NextLogits,
        prompts: Array,
        context: int,
        options: GenerationOptions,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Raises `ValueError` for prompts without tokens or longer than the context."""
        if not 1 <= prompts.shape[1] <= context:
            raise ValueError(f"a prompt must have 1 to {context} tokens, but has {prompts.shape[1]}")
        self._next_logits, self._context, self._options = next_logits, context, options
        self._forbidden = list(forbidden)
        self._in_sight = self._unread = prompts
        self._cache = KeyValueCache()
        numbers = [0] * len(prompts) if numbers is None else numbers
        self._streams = [np.random.default_rng((options.seed, number)) for number in numbers]

    def step(self) -> list[int]:
        """Return one more token for every row."""
        if self._cache.length + self._unread.shape[1] > self._context:
            self._unread = self._in_sight = self._in_sight[:, -(self._context // 2) :]
            self._cache = KeyValueCache()
        logits = self._next_logits(self._unread, self._cache)
        tokens = [self._chosen(*row) for row in zip(logits, self._in_sight, self._streams, strict=True)]
        self._unread = np.array(tokens)[:, None]
        self._in_sight = np.concatenate([self._in_sight, self._unread], axis=1)
        return tokens

    def keep(self, rows: Sequence[int]) -> None:
        """Continue only the rows at these indices."""
        index = list(rows)
        self._unread, self._in_sight = self._unread[index], self._in_sight[index]
        self._cache.keep(index)
        self._streams = [self._streams[row] for row in index]

    def _chosen(self, logits: Array, in_sight: Array, stream: np.random.Generator) -> int:
        """Return one token, drawn from logits (V,) as the options say."""
        options = self._options
        if options.repetition_penalty != 1.0:
            penalize(logits, in_sight.tolist(), options.repetition_penalty)
        if size := options.no_repeat_ngram:
            logits[completing_tokens(in_sight.tolist(), size)] = -np.inf
        logits[self._forbidden] = -np.inf
        if options.temperature == 0:
            return int(logits.argmax())
        return draw(logits, options, np.float32(stream.random(dtype=np.float32)))
