"""What an engine for classifiers, language models and sentence encoders is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dikkat_runtime.engine.contract import EngineInfo, Memory
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.native.arrays import Array

Rows = Sequence[Sequence[int]]
"""Ids of texts as the model is given them, special tokens included; none is empty."""


class TextEngine(Protocol):
    """Computes states and vectors of texts with the weights of one model; chosen once, when they are loaded."""

    @property
    def info(self) -> EngineInfo:
        """What computes, and with what."""
        ...

    @property
    def width(self) -> int:
        """D, the numbers of a vector."""
        ...

    def hidden(self, rows: Rows) -> Memory:
        """The state of every id, before any output layer; zeros, or anything, at padding."""
        ...

    def pool(self, memory: Memory) -> Array:
        """(B, D): one vector from the states of each text, in which padding has no part."""
        ...


class ClassifyingEngine(TextEngine, Protocol):
    """The engine of a classifier."""

    def logits(self, rows: Rows) -> Array:
        """(B, C): a logit for each class; of a model with a single output that of the first of two classes is 0."""
        ...


class Writer(Protocol):
    """Texts that grow side by side, one token a step."""

    def step(self) -> list[int]:
        """One more token for every text."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Only the texts at these indices go on."""
        ...


class WritingEngine(TextEngine, Protocol):
    """The engine of a language model."""

    def nats(self, windows: Array, skipped: Sequence[int]) -> float:
        """Negative log-likelihood of ids (B, T+1), each given those before it; of the first `skipped` there is none.

        The first id of a window is only read.
        """
        ...

    def write(
        self,
        prompts: Array,
        context: int,
        options: GenerationOptions,
        *,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
    ) -> Writer:
        """Begin to write on from prompts (R, P) of one length, at least one token and at most `context`.

        A text sees at most `context` tokens: when there is no room for one more, the older half is forgotten and the
        newer half read anew from position 0 on. `forbidden` ids are never written. With the seed, the number of a text
        in `numbers`, by default 0 for each, decides what is drawn for it, not its neighbours.
        """
        ...
