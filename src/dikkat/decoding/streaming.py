"""An endless stream of sentences in, what is made of each out in the same order, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.decoding.copies import can_be_copied, in_copies
from dikkat.decoding.stepper import EOS, PAD
from dikkat.errors import UsageError
from dikkat.native.threads import num_threads, share_threads

Made = TypeVar("Made")

Decode = Callable[[Tensor, Tensor, Sequence[int]], Sequence[Made]]
"""From source (B, S), source mask (B, S) and the numbers of the sentences to what is made of each."""

Places = Sequence[int]
"""Where the sentences of a batch stand in their window."""


def decode_stream(
    sentences: Iterable[Sequence[int]],
    decode: Decode[Made],
    empty: Made,
    *,
    batch_size: int = 128,
    batch_tokens: int = 8192,
    window: int = 2048,
    at_once: int = 1,
    apart: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[Made]:
    """What `decode` makes of every sentence (source ids without an end mark), in the order of the input.

    At most `window` sentences are read ahead; inside that window sentences of like length share a batch of at most
    `batch_size` sentences and `batch_tokens` source tokens, padding included (a longer sentence goes alone). A window
    of 1 answers each sentence before it reads the next. Of an empty sentence `empty` is made, and it never reaches the
    model. Up to `at_once` batches are decoded side by side: by threads, which share those that native code has, or,
    `apart`, by this process and copies of it on one thread each, if it can be copied. Raises `UsageError` when a limit
    is below 1.
    """
    limits = {"batch_size": batch_size, "batch_tokens": batch_tokens, "window": window, "at_once": at_once}
    for name, limit in limits.items():
        if limit < 1:
            raise UsageError(f"{name} must be at least 1, not {limit}")
    batches = _Batches(decode, empty, batch_size, batch_tokens, at_once, apart, torch.device(device))
    return _windows(iter(sentences), batches, window)


@dataclass(frozen=True, slots=True)
class _Batches(Generic[Made]):
    """How the sentences of a window are decoded."""

    decode: Decode[Made]
    empty: Made
    size: int
    tokens: int
    at_once: int
    apart: bool
    device: torch.device

    def of(self, window: Sequence[Sequence[int]], first: int) -> list[Made]:
        """What is made of each sentence; `first` is the number of the first."""

        def decoded(places: Places) -> Sequence[Made]:
            source, source_mask = pad_sources([window[place] for place in places], self.device)
            return self.decode(source, source_mask, [first + place for place in places])

        results = [self.empty for _ in window]
        batches = list(length_batches([len(sentence) for sentence in window], self.size, self.tokens))
        for places, made in zip(batches, self._side_by_side(decoded, batches), strict=True):
            for place, result in zip(places, made, strict=True):
                results[place] = result
        return results

    def _side_by_side(
        self, decoded: Callable[[Places], Sequence[Made]], batches: Sequence[Places]
    ) -> Iterator[Sequence[Made]]:
        """In the order of the batches. After an error, or Ctrl-C, none is begun any more."""
        workers = min(self.at_once, len(batches))
        if workers <= 1 or (self.apart and not can_be_copied()):
            return map(decoded, batches)
        return (in_copies if self.apart else _in_threads)(decoded, batches, workers)


def _in_threads(
    decoded: Callable[[Places], Sequence[Made]], batches: Sequence[Places], workers: int
) -> Iterator[Sequence[Made]]:
    with ThreadPoolExecutor(workers, initializer=share_threads, initargs=(max(1, num_threads() // workers),)) as pool:
        yield from pool.map(decoded, batches)


def _windows(sentences: Iterator[Sequence[int]], batches: _Batches[Made], window: int) -> Iterator[Made]:
    first = 0
    while read := list(islice(sentences, window)):
        yield from batches.of(read, first)
        first += len(read)


def length_batches(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> Iterator[list[int]]:
    """Places of the sentences that share a batch, longest first; empty ones are in none. The end mark is counted."""
    order = sorted((place for place, length in enumerate(lengths) if length), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        width = lengths[order[start]] + 1
        end = start + max(1, min(batch_size, batch_tokens // width))
        yield order[start:end]
        start = end


def pad_sources(
    sentences: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Source ids with their end marks, padded to the longest, and the mask that is True at real tokens."""
    width = max(len(sentence) for sentence in sentences) + 1
    rows = [[*sentence, EOS] + [PAD] * (width - len(sentence) - 1) for sentence in sentences]
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    # (B,) -> (B, S)
    source_mask = torch.arange(width) < lengths.unsqueeze(1)
    return torch.tensor(rows, dtype=torch.int64).to(device), source_mask.to(device)
