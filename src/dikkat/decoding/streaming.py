"""An endless stream of sentences in, their hypotheses out in the same order, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.decoding.hypothesis import EMPTY, Hypothesis
from dikkat.decoding.stepper import EOS, PAD
from dikkat.decoding.strategies import DecodeBatch
from dikkat.errors import UsageError


def decode_stream(
    sentences: Iterable[Sequence[int]],
    decode: DecodeBatch,
    *,
    batch_size: int = 64,
    batch_tokens: int = 8192,
    window: int = 2048,
    device: torch.device | str = "cpu",
) -> Iterator[list[Hypothesis]]:
    """Hypotheses of every sentence (source ids without an end mark), in the order of the input.

    At most `window` sentences are read ahead; inside that window sentences of like length share a batch of at most
    `batch_size` sentences and `batch_tokens` source tokens, padding included (a longer sentence goes alone). A window
    of 1 answers each sentence before it reads the next. An empty sentence gives one empty hypothesis and never reaches
    the model. Raises `UsageError` when a limit is below 1.
    """
    for name, limit in (("batch_size", batch_size), ("batch_tokens", batch_tokens), ("window", window)):
        if limit < 1:
            raise UsageError(f"{name} must be at least 1, not {limit}")
    return _windows(iter(sentences), decode, batch_size, batch_tokens, window, torch.device(device))


def _windows(
    sentences: Iterator[Sequence[int]],
    decode: DecodeBatch,
    batch_size: int,
    batch_tokens: int,
    window: int,
    device: torch.device,
) -> Iterator[list[Hypothesis]]:
    first = 0
    while batch := list(islice(sentences, window)):
        results: list[list[Hypothesis]] = [[EMPTY] for _ in batch]
        for places in length_batches([len(sentence) for sentence in batch], batch_size, batch_tokens):
            source, source_mask = pad_sources([batch[place] for place in places], device)
            decoded = decode(source, source_mask, [first + place for place in places])
            for place, hypotheses in zip(places, decoded, strict=True):
                results[place] = hypotheses
        yield from results
        first += len(batch)


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
