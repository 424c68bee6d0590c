"""A task that shows the path length: name the first token at the last position."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.lessons.comparison.layers import build_layer, count_parameters
from dikkat.lessons.comparison.settings import KINDS, Cell, Kind
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.positions import SinusoidalPositions
from dikkat_runtime.errors import msg

VOCABULARY: Final = 8
CHANCE: Final = 1 / VOCABULARY
BATCH: Final = 64
TESTED: Final = 1000
_LEARNING_RATE = 3e-3
_MAX_GRADIENT = 1.0


@dataclass(frozen=True, slots=True)
class Copied:
    """Hold the result of one layer trained at one length."""

    kind: Kind
    length: int
    accuracy: float
    """Share of `TESTED` fresh random sequences whose first token was named."""
    parameters: int
    """Parameters of the layer alone; the rest of the model is the same for all."""
    seconds: float


class FirstTokenModel(nn.Module):
    """Predict the first token at the last position with embedding, positions and one layer."""

    def __init__(self, layer: nn.Module, width: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = TokenEmbedding(VOCABULARY, width)
            self.output = nn.Linear(width, VOCABULARY)
        self.positions = SinusoidalPositions(width)
        self.layer = layer

    def forward(self, tokens: Tensor) -> Tensor:
        # (B, S) -> (B, S, D) -> (B, D) -> (B, V)
        """Return logits (B, V) for tokens (B, S)."""
        hidden = self.layer(self.positions(self.embedding(tokens)))
        logits: Tensor = self.output(hidden[:, -1])
        return logits


def copy_first(kind: Kind, length: int, width: int, *, kernel: int, cell: Cell, updates: int, seed: int) -> Copied:
    """Train one layer on random sequences of `length` tokens, then test it on fresh ones.

    Every kind sees the same sequences, batches and learning rate (Adam).
    """
    layer = build_layer(kind, width, kernel=kernel, cell=cell, seed=seed)
    model = FirstTokenModel(layer, width, seed)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    started = time.perf_counter()
    for _ in range(updates):
        tokens = torch.randint(VOCABULARY, (BATCH, length), generator=draw)
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(tokens), tokens[:, 0]))
        nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRADIENT)
        optimizer.step()
    seconds = time.perf_counter() - started
    with torch.no_grad():
        tokens = torch.randint(VOCABULARY, (TESTED, length), generator=draw)
        right = int((model(tokens).argmax(-1) == tokens[:, 0]).sum())
    return Copied(kind, length, right / TESTED, count_parameters(layer), seconds)


def copy_over(
    lengths: Sequence[int],
    width: int,
    *,
    kernel: int,
    cell: Cell,
    updates: int,
    seed: int,
    watch: Callable[[str], None],
) -> tuple[Copied, ...]:
    """Train and test each kind at each length; `watch` receives the name of each run before it starts."""
    results = []
    for length in lengths:
        for kind in KINDS:
            watch(msg("training {kind} to copy the first of {length:,} tokens", kind, length))
            results.append(copy_first(kind, length, width, kernel=kernel, cell=cell, updates=updates, seed=seed))
    return tuple(results)
