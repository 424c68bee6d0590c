"""A model whose next-token logits are a fixed random function of the source and of the whole prefix.

Its cache stores the prefixes themselves, so that a row that is reordered or dropped wrongly gets other logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

Prefix = tuple[int, ...]
ROWS = 5003


@lru_cache
def random_rows(vocab_size: int) -> npt.NDArray[np.float32]:
    """(5003, V) normal logits of standard deviation 1.5; a prefix picks its row by its hash."""
    return np.random.default_rng(1).normal(scale=1.5, size=(ROWS, vocab_size)).astype(np.float32)


class MockCache:
    """Prefixes in place of keys and values."""

    def __init__(self, sources: list[Prefix], rows_per_sentence: int) -> None:
        self.sources = sources
        self.rows_per_sentence = rows_per_sentence
        self.prefixes: list[Prefix] = [() for _ in range(len(sources) * rows_per_sentence)]
        self.length = 0

    def reorder(self, index: Tensor) -> None:
        rows: list[int] = index.tolist()
        assert len(rows) == len(self.prefixes)
        assert all(new // self.rows_per_sentence == old // self.rows_per_sentence for new, old in enumerate(rows))
        self.prefixes = [self.prefixes[row] for row in rows]

    def drop(self, keep: Tensor) -> None:
        sentences: list[int] = keep.tolist()
        assert sentences == sorted(set(sentences))
        assert sentences, "the last sentence ends the search, there is nothing to drop"
        self.sources = [self.sources[sentence] for sentence in sentences]
        rows = self.rows_per_sentence
        self.prefixes = [self.prefixes[sentence * rows + row] for sentence in sentences for row in range(rows)]


@dataclass
class MockModel:
    """Implements `CachedModel`; `eos_slope` raises the end mark's logit per emitted token."""

    vocab_size: int = 12
    seed: int = 0
    eos_bias: float = -1.0
    eos_slope: float = 0.3
    fixed: Sequence[float] | None = None
    """Logits whatever the prefix, instead of random ones."""
    rows_seen: list[int] = field(default_factory=list)
    sources_seen: list[Prefix] = field(default_factory=list)
    known: dict[tuple[Prefix, Prefix], npt.NDArray[np.float32]] = field(default_factory=dict)

    def logits(self, source: Prefix, prefix: Prefix) -> npt.NDArray[np.float32]:
        """Logits of the token after `prefix` (without the begin mark)."""
        if self.fixed is not None:
            return np.array(self.fixed, dtype=np.float32)
        if (source, prefix) not in self.known:
            # The hash of integers is the same in every process.
            logits = random_rows(self.vocab_size)[hash((self.seed, source, prefix)) % ROWS].copy()
            logits[EOS_ID] += self.eos_bias + self.eos_slope * len(prefix)
            # Tempting, so that whoever forgets to forbid them is caught.
            logits[PAD_ID] += 4.0
            logits[BOS_ID] += 4.0
            self.known[source, prefix] = logits
        return self.known[source, prefix]

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        assert source.dtype == torch.int64
        assert source_mask.dtype == torch.bool
        return torch.stack([source, source + 1], dim=-1).float() * source_mask.unsqueeze(-1)

    def start_cache(self, memory: Tensor, source_mask: Tensor, *, rows_per_sentence: int = 1) -> MockCache:
        pairs = zip(memory, source_mask, strict=True)
        sources = [tuple(int(token) for token in rows[mask, 0].tolist()) for rows, mask in pairs]
        self.sources_seen += sources
        return MockCache(sources, rows_per_sentence)

    def step(self, tokens: Tensor, cache: MockCache) -> Tensor:
        assert tokens.shape == (len(cache.prefixes),)
        assert torch.is_inference_mode_enabled()
        self.rows_seen.append(len(tokens))
        cache.prefixes = [(*prefix, token) for prefix, token in zip(cache.prefixes, tokens.tolist(), strict=True)]
        cache.length += 1
        assert all(prefix[0] == BOS_ID and len(prefix) == cache.length for prefix in cache.prefixes)
        owners = [source for source in cache.sources for _ in range(cache.rows_per_sentence)]
        rows = [self.logits(source, prefix[1:]) for source, prefix in zip(owners, cache.prefixes, strict=True)]
        return torch.from_numpy(np.stack(rows))


def batch_of(sentences: Sequence[Prefix]) -> tuple[Tensor, Tensor]:
    """Right-padded source ids and their mask, made without the code under test."""
    width = max(len(sentence) for sentence in sentences)
    source = torch.zeros(len(sentences), width, dtype=torch.int64)
    mask = torch.zeros(len(sentences), width, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        source[row, : len(sentence)] = torch.tensor(sentence)
        mask[row, : len(sentence)] = True
    return source, mask


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """In float64."""
    exact = logits.astype(np.float64)
    largest = exact.max()
    return np.asarray(exact - largest - np.log(np.exp(exact - largest).sum()))


def some_sentences(count: int, seed: int = 0) -> list[Prefix]:
    """Sources of 1 to 9 tokens and an end mark."""
    generator = np.random.default_rng(seed)
    return [
        (*(int(token) for token in generator.integers(3, 40, size=generator.integers(1, 10))), EOS_ID)
        for _ in range(count)
    ]
