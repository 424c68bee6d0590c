"""What an engine for translators is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.arrays import Array

Precision = Literal["float32", "int8"]


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What computes, and with what."""

    name: str
    """"native"."""
    precision: Precision
    threads: int
    instructions: str
    """Level of the processor's instruction set that the kernels were compiled for."""

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        kernels = "compiled on this computer" if self.instructions == "native" else f"for {self.instructions}"
        return f"{self.name} engine ({kernels}), {self.precision}, {threads}"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How hypotheses are searched; a beam of one is greedy decoding. Raises `UsageError` for a value out of range."""

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 1.6
    """Alpha of `score = log p / length ** alpha`."""
    max_length_factor: float = 2.0
    max_length_offset: int = 10
    """A hypothesis has at most `floor(factor * source tokens) + offset` tokens, end marks counted on both sides."""

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise UsageError(f"the beam must be a whole number of at least 1, not {self.beam_size}")
        if not 1 <= self.n_best <= self.beam_size:
            raise UsageError(f"n-best must be a whole number from 1 to the beam ({self.beam_size}), not {self.n_best}")
        if not 0 <= self.length_penalty <= 5:
            raise UsageError(f"the length penalty must be between 0 and 5, not {self.length_penalty}")

    def length_cap(self, source_tokens: int) -> int:
        """Most tokens of a hypothesis for a source of so many."""
        return max(1, int(self.max_length_factor * source_tokens) + self.max_length_offset)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output for one sentence."""

    tokens: tuple[int, ...]
    """Ids without the begin and end marks."""
    score: float
    """`log_probability / length ** alpha`, the end mark counted in the length (Wu et al. 2016, section 7).

    NaN, as the log-probability, where `DecodingOptions.scores` is off and the way of decoding does not need them.
    """
    log_probability: float
    """Sum of the model's own log-probabilities (natural logarithm), the end mark's included; never above 0."""
    finished: bool
    """Whether the model ended the sentence itself, before the length cap."""


EMPTY = Hypothesis(tokens=(), score=0.0, log_probability=0.0, finished=True)
"""The only output of an empty sentence."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What an encoder made of a batch of sources."""

    states: Array
    """(B, S, D), zeros at padding."""
    lengths: tuple[int, ...]
    """Tokens of each source, the end mark included."""


class Engine(Protocol):
    """Computes with the weights of one translator."""

    @property
    def info(self) -> EngineInfo:
        """What computes, and with what."""
        ...

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Read sources (ids without an end mark, none empty)."""
        ...

    def search(self, memory: Memory, options: SearchOptions) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each source, best first."""
        ...
