"""The contract of an engine for translators: its questions and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.engine.outputs import EMPTY, Hypothesis, Memory
from dikkat_runtime.engine.steps_contract import Steps
from dikkat_runtime.messages import msg, plural

__all__ = ["EMPTY", "Engine", "EngineInfo", "EngineName", "Hypothesis", "Memory"]

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
    batch_size: int | None = None
    """The number of sentences that are fastest together; None leaves it to the caller."""
    has_shortlist: bool = False
    """True where a translation consists of words of a shortlist for its source."""

    def __str__(self) -> str:
        threads = plural(self.threads, "thread")
        levels = {"": "", "native": msg(" (compiled on this computer)")}
        kernels = levels.get(self.instructions, msg(" (for {instructions})").fill(self.instructions))
        why = msg("; not native: {why_not_native}").fill(self.why_not_native) if self.why_not_native else ""
        precision = self.precision + (msg(" ({why})").fill(self.why_precision) if self.why_precision else "")
        words = msg(", words of a shortlist") if self.has_shortlist else ""
        return msg("{name} engine{kernels}, {precision}, {threads}{words}{why}").fill(
            self.name, kernels, precision, threads, words, why
        )


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
        neighbours: Sequence[Neighbours | None] = (),
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first, found by the algorithm that the options stand for.

        `numbers` are those of the sentences, by default from 0: with the seed they decide what sampling draws. With
        `constraints`, one a source, beam search and greedy decoding write only what meets them; sampling has none.
        With `neighbours`, one a source, search holds tokens that followed like states for likelier.
        """
        ...

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> Steps:
        """Single steps over sources that are read, with so many rows for each; greedy decoding has one."""
        ...
