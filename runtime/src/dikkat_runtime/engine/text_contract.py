"""The contract of an engine for classifiers, language models and sentence encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dikkat_runtime.engine.contract import EngineInfo, Memory
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.native.arrays import Array

Rows = Sequence[Sequence[int]]
"""Ids of texts as the model is given them, special tokens included; none is empty."""


class TextEngine(Protocol):
    """An engine computes states and vectors of texts with the weights of one model and is chosen once, at loading."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision, threads and instruction set."""
        ...

    @property
    def width(self) -> int:
        """D, the entries of a vector."""
        ...

    def hidden(self, rows: Rows) -> Memory:
        """Return the state of every id, before any output layer; the states at padding are undefined."""
        ...

    def pool(self, memory: Memory) -> Array:
        """Return one vector (B, D) a text from the states at its real positions."""
        ...


class ClassifyingEngine(TextEngine, Protocol):
    """The engine of a classifier."""

    def logits(self, rows: Rows) -> Array:
        """Return a logit (B, C) for each class; with a single output the first of two classes has 0."""
        ...


class Writer(Protocol):
    """A writer continues texts side by side, one token a step."""

    def step(self) -> list[int]:
        """Return one more token for every text."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Continue only the texts at these indices."""
        ...


class WritingEngine(TextEngine, Protocol):
    """The engine of a language model."""

    def nats(self, windows: Array, skipped: Sequence[int]) -> float:
        """Return the negative log-likelihood of ids (B, T+1), each given those before it, without the first `skipped`.

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
        """Begin to continue prompts (R, P) of one length, at least one token and at most `context`.

        A text has at most `context` tokens of history: when that is full, the older half is forgotten and the
        newer half read anew from position 0 on. `forbidden` ids are never written. With the seed, the number of a text
        in `numbers`, by default 0 for each, decides what is drawn for it, not its neighbours.
        """
        ...
