"""An endless stream of sentences in, what is made of each out in the same order, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import torch
from torch import Tensor

from dikkat.decoding.batching import length_batches, pad_sources
from dikkat.native.threads import num_threads, share_threads
from dikkat_runtime.errors import UsageError

Made = TypeVar("Made")

Decode = Callable[[Tensor, Tensor, Sequence[int]], Sequence[Made]]
"""From source (B, S), source mask (B, S) and the numbers of the sentences to what is made of each."""

Part = tuple[Sequence[Sequence[int]], Sequence[int]]
"""The sentences of a batch, and their numbers."""

Apart = Callable[[Sequence[Part]], Iterator[Sequence[Made]]]
"""Makes the same of several batches, in their order."""


def decode_stream(
    sentences: Iterable[Sequence[int]],
    decode: Decode[Made],
    empty: Made,
    *,
    batch_size: int = 128,
    batch_tokens: int = 16384,
    window: int = 2048,
    at_once: int = 1,
    apart: Apart[Made] | None = None,
    device: torch.device | str = "cpu",
) -> Iterator[Made]:
    """What `decode` makes of every sentence (source ids without an end mark), in the order of the input.

    At most `window` sentences are read ahead; inside that window sentences of like length share a batch of at most
    `batch_size` sentences and `batch_tokens` source tokens, padding included (a longer sentence goes alone). A window
    of 1 answers each sentence before it reads the next. Of an empty sentence `empty` is made, and it never reaches the
    model. Up to `at_once` batches are decoded side by side: by threads, which share those that native code has, or
    `apart`. Raises `UsageError` when a limit is below 1.
    """
    _require_positive(window=window)
    batches = Batches(decode, empty, batch_size, batch_tokens, at_once, apart, device)
    return _windows(iter(sentences), batches, window)


@dataclass(frozen=True, slots=True)
class Batches(Generic[Made]):
    """How the sentences of a window are decoded; see `decode_stream`."""

    decode: Decode[Made]
    empty: Made
    batch_size: int = 128
    batch_tokens: int = 16384
    at_once: int = 1
    apart: Apart[Made] | None = None
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        _require_positive(batch_size=self.batch_size, batch_tokens=self.batch_tokens, at_once=self.at_once)

    def of(self, window: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[Made]:
        """What is made of each sentence."""
        results = [self.empty for _ in window]
        lengths = [len(sentence) for sentence in window]
        # threads share a batch of native code too, so that no work need be shared out before
        workers = 1 if self.apart is None else self.at_once
        batches = list(length_batches(lengths, self.batch_size, self.batch_tokens, workers=workers))
        parts = [([window[place] for place in places], [numbers[place] for place in places]) for places in batches]
        for places, made in zip(batches, self._side_by_side(parts), strict=True):
            for place, result in zip(places, made, strict=True):
                results[place] = result
        return results

    def _side_by_side(self, parts: Sequence[Part]) -> Iterator[Sequence[Made]]:
        """In the order of the batches. After an error, or Ctrl-C, none is begun any more."""
        workers = min(self.at_once, len(parts))
        if workers <= 1:
            return map(self._decoded, parts)
        return _in_threads(self._decoded, parts, workers) if self.apart is None else self.apart(parts)

    def _decoded(self, part: Part) -> Sequence[Made]:
        sentences, numbers = part
        return self.decode(*pad_sources(sentences, torch.device(self.device)), numbers)


def _in_threads(
    decoded: Callable[[Part], Sequence[Made]], parts: Sequence[Part], workers: int
) -> Iterator[Sequence[Made]]:
    with ThreadPoolExecutor(workers, initializer=share_threads, initargs=(max(1, num_threads() // workers),)) as pool:
        yield from pool.map(decoded, parts)


def _windows(sentences: Iterator[Sequence[int]], batches: Batches[Made], window: int) -> Iterator[Made]:
    first = 0
    while read := list(islice(sentences, window)):
        yield from batches.of(read, range(first, first + len(read)))
        first += len(read)


def _require_positive(**limits: int) -> None:
    for name, limit in limits.items():
        if limit < 1:
            raise UsageError(f"{name} must be at least 1, not {limit}")
