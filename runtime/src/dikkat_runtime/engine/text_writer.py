"""Write texts with a language model token by token, and several at once where a draft of what follows is right."""

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.engine.contract import WritingEngine
from dikkat_runtime.engine.options import GenerationOptions, completing_tokens, draw, penalize
from dikkat_runtime.native.arrays import Array


class Drafts:
    """Guesses of how one text goes on: as it did where its last tokens stood before (Saxena 2023).

    A draft takes as long as 0.3 steps, and 0.2 for each of its tokens (docs/performance.md), so there are drafts while
    they have cost at most 2 % of all steps.
    """

    def __init__(self) -> None:
        self._most, self._saved = 2, 0.0

    def guess(self, text: Array, most: int) -> list[int]:
        """Return tokens that may follow `text` (T,), at most so many, or none."""
        if min(most, len(text) - 4) < 1 or self._saved < 0:
            return []
        ends, size = np.flatnonzero(text[3:-1] == text[-1]) + 3, 1
        while size < 4 and len(longer := ends[text[ends - size] == text[-1 - size]]):
            ends, size = longer, size + 1
        return [] if size == 1 else list(np.resize(text[ends[-1] + 1 :], min(most, self._most)))

    def record(self, drafted: int, right: int) -> None:
        """Learn from a step that has read a draft of so many tokens, of which the first were `right`."""
        self._saved += 0.02
        if drafted:
            self._saved, self._most = min(2.0, self._saved + right - 0.3 - 0.2 * drafted), min(16, 2 * right + 2)


class TextWriter:
    """A writer of R rows that begin with `prompts` (R, P), by any engine, side by side and one token a step.

    A text has at most `context` tokens of history: when that is full, the older half is forgotten and the newer half
    read anew from position 0 on. With the seed, the number of a row in `numbers`, by default 0, decides what is drawn
    for it, not its neighbours. A row that is alone reads drafts, and keeps what it chooses anyway: no text changes.
    """

    def __init__(
        self,
        engine: WritingEngine,
        prompts: Array,
        context: int,
        options: GenerationOptions,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
    ) -> None:
        """`forbidden` ids are never written. Raises `ValueError` for prompts without tokens or beyond the context."""
        if not 1 <= prompts.shape[1] <= context:
            raise ValueError(f"a prompt must have 1 to {context} tokens, but has {prompts.shape[1]}")
        self._engine, self._context, self._options = engine, context, options
        self._forbidden, self._drafts = list(forbidden), Drafts() if engine.reads_ahead else None
        self._in_sight = self._unread = prompts
        self._cache = engine.start_cache()
        numbers = [0] * len(prompts) if numbers is None else numbers
        self._streams = [np.random.default_rng((options.seed, number)) for number in numbers]
        self._ahead: list[list[int]] = []

    def step(self) -> list[int]:
        """Return one more token for every row."""
        if not self._ahead:
            self._ahead = self._next_tokens()
        return self._ahead.pop(0)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue only the rows at these indices."""
        index = list(rows)
        self._unread, self._in_sight = self._unread[index], self._in_sight[index]
        self._cache.keep(index)
        self._streams = [self._streams[row] for row in index]

    def _next_tokens(self) -> list[list[int]]:
        """Return the next token of every row, or several of the only one."""
        if self._cache.length + self._unread.shape[1] > self._context:
            self._unread = self._in_sight = self._in_sight[:, -(self._context // 2) :]
            self._cache = self._engine.start_cache()
        read, guessed, written = self._unread, list[int](), list[list[int]]()
        drafts = self._drafts if read.size == 1 else None
        if drafts is not None:
            guessed = drafts.guess(self._in_sight[0], self._context - self._cache.length - 1)
            read = np.array([[*read[0], *guessed]])
        logits = self._engine.next_logits(read, self._cache, 1 + len(guessed))
        for number, guess in enumerate([*guessed, None]):
            rows = logits[number : number + len(read)], self._in_sight, self._streams
            written.append([self._chosen(*row) for row in zip(*rows, strict=True)])
            self._unread = np.array(written[-1])[:, None]
            self._in_sight = np.concatenate([self._in_sight, self._unread], axis=1)
            if guess != written[-1][0]:
                break
        if drafts is not None:
            self._cache.length -= 1 + len(guessed) - len(written)
            drafts.record(len(guessed), len(written) - 1)
        return written

    def _chosen(self, logits: Array, in_sight: Array, stream: np.random.Generator) -> int:
        """Return one token, drawn from logits (V,) as the options say."""
        options = self._options
        if options.repetition_penalty != 1.0:
            penalize(logits, in_sight.tolist(), options.repetition_penalty)
        if size := options.no_repeat_ngram:
            logits[completing_tokens(in_sight.tolist(), size)] = -np.inf
        logits[self._forbidden] = -np.inf
        return draw(logits, options, np.float32(stream.random(dtype=np.float32)))
