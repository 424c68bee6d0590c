"""The contract of an engine for translators: its questions and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.engine.steps_contract import Steps
from dikkat_runtime.errors import plural
from dikkat_runtime.native.arrays import Array

EngineName = Literal["auto", "native", "torch"]
"""The engine that a user asks for; "auto" is native where that is possible, else torch."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The engine that computes, with its precision, threads and instruction set."""

    name: str
    """"native", "torch" or "torch:cuda"."""
    precision: Precision
    threads: int
    instructions: str = ""
    """Level of the processor's instruction set that the native kernels were compiled for."""
    why_not_native: str = ""
    """The reason for another engine, where the user asked for none."""
    why_precision: str = ""
    """The reason for this precision, where the user asked for none."""

    def __str__(self) -> str:
        threads = plural(self.threads, "thread")
        levels = {"": "", "native": " (compiled on this computer)"}
        kernels = levels.get(self.instructions, f" (for {self.instructions})")
        why = f"; not native: {self.why_not_native}" if self.why_not_native else ""
        precision = f"{self.precision} ({self.why_precision})" if self.why_precision else self.precision
        return f"{self.name} engine{kernels}, {precision}, {threads}{why}"


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
    """True if the model ended the sentence itself, before the length cap."""


EMPTY = Hypothesis(tokens=(), score=0.0, log_probability=0.0, finished=True)
"""The only output of an empty sentence."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder states of a batch of sources."""

    states: Array
    """(B, S, D), zeros at padding."""
    lengths: tuple[int, ...]
    """Tokens of each source, the end mark included."""


class Engine(Protocol):
    """An engine computes with the weights of one translator and is chosen once, when they are loaded."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision, threads and instruction set."""
        ...

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        """Encode sources (ids without an end mark, none empty) with `threads` threads, by default the engine's."""
        ...

    def search(
        self,
        memory: Memory,
        options: DecodingOptions,
        *,
        numbers: Sequence[int] | None = None,
        threads: int | None = None,
        constraints: Sequence[Constraint | None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first, found by the algorithm that the options stand for.

        `numbers` are those of the sentences, by default from 0: with the seed they decide what sampling draws. With
        `constraints`, one a source, beam search and greedy decoding write only what meets them; sampling has none.
        """
        ...

    def steps(self, memory: Memory, beam_size: int) -> Steps:
        """Return a decoder of single steps over encoded sources, with `beam_size` rows for each.

        Greedy decoding has one.
        """
        ...
