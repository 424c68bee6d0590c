"""Generate text: rows of tokens grow side by side, one token a step, in constant memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.torch_engine.stepper import completing_ngrams, penalized
from dikkat.torch_engine.strategies import candidates, draw
from dikkat_runtime.engine.options import GenerationOptions


class RowCache(Protocol):
    """Hold what a model has read of each row."""

    @property
    def length(self) -> int:
        """Return how many tokens of every row were read so far."""
        ...

    def reorder(self, index: Int[Tensor, "R2"]) -> None:
        """Let row `r` continue row `index[r]`; a shorter index drops rows."""
        ...


CacheT = TypeVar("CacheT", bound=RowCache)


class WritingModel(Protocol[CacheT]):
    """Read any number of tokens at a time, with a cache of its own kind."""

    def start_cache(self) -> CacheT:
        """Return a cache of rows that have read nothing."""
        ...

    def read(self, tokens: Int[Tensor, "R T"], cache: CacheT) -> Float[Tensor, "R V"]:
        """Return the logits of the next token after `tokens`, which follow what `cache` holds."""
        ...


class Generation:
    """Continue R rows that begin with `prompts` (R, P).

    A row sees at most `context` tokens. When one more would exceed it, the older half is forgotten and the newer half
    read again from position 0: the model meets only positions that it was trained on, and its output is the same as
    without a cache. `forbidden` ids are never written. The random numbers of a row depend on the seed and on its number
    in `numbers`, by default 0, not on its neighbours. Raises `ValueError` for prompts without tokens or longer than the
    context.
    """

    def __init__(
        self,
        model: WritingModel[Any],
        prompts: Int[Tensor, "R P"],
        context: int,
        options: GenerationOptions,
        *,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
    ) -> None:
        if not 1 <= prompts.shape[1] <= context:
            raise ValueError(f"a prompt must have 1 to {context} tokens, but has {prompts.shape[1]}")
        self._model, self._context, self._options = model, context, options
        self._forbidden = torch.tensor(list(forbidden), dtype=torch.int64, device=prompts.device)
        self._in_sight = self._unread = prompts
        self._cache: RowCache = model.start_cache()
        numbers = [0] * len(prompts) if numbers is None else numbers
        self._streams = [np.random.default_rng((options.seed, number)) for number in numbers]

    def step(self) -> list[int]:
        """Generate one more token for every row."""
        with torch.inference_mode():
            if self._cache.length + self._unread.shape[1] > self._context:
                self._unread = self._in_sight = self._in_sight[:, -(self._context // 2) :]
                self._cache = self._model.start_cache()
            logits = self._model.read(self._unread, self._cache).float()
            if self._options.repetition_penalty != 1.0:
                logits = penalized(logits, self._in_sight, self._options.repetition_penalty)
            if size := self._options.no_repeat_ngram:
                logits.masked_fill_(completing_ngrams(self._in_sight, size, logits.shape[1]), -torch.inf)
            logits[:, self._forbidden] = -torch.inf
            chosen = self._choose(logits)
            self._unread = chosen[:, None]
            self._in_sight = torch.cat([self._in_sight, self._unread], dim=1)
        tokens: list[int] = chosen.tolist()
        return tokens

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only the rows with these indices."""
        index = torch.tensor(list(rows), dtype=torch.int64, device=self._unread.device)
        self._unread, self._in_sight = self._unread[index], self._in_sight[index]
        self._cache.reorder(index)
        self._streams = [self._streams[row] for row in rows]

    def _choose(self, logits: Float[Tensor, "R V"]) -> Int[Tensor, "R"]:
        if self._options.temperature == 0:
            # argmax promises the first of equal entries
            return logits.argmax(dim=-1)
        probabilities, ids = candidates(logits, self._options)
        uniforms = torch.tensor([stream.random(dtype=np.float32) for stream in self._streams], device=logits.device)
        return ids.gather(1, draw(probabilities, uniforms)[:, None])[:, 0]
