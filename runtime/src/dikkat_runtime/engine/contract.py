"""The contract of an engine for translators: its questions and its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.hypotheses import EMPTY, Hypothesis, Memory, Sentence
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions, Precision, SamplingOptions
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.native.arrays import Array

# The contract of a decoder that takes single steps, as search calls it on any engine.


class Steps(Protocol):
    """A decoder that is fed one token a row at a time, on any engine."""

    @property
    def length(self) -> int:
        """The number of tokens that every row was fed so far."""

    @property
    def limit(self) -> int | None:
        """The most tokens that a row can be fed; None where there is no limit."""

    @property
    def forced(self) -> int:
        """The number of tokens that every target begins with, which are fed before and counted nowhere else."""

    def step(self, tokens: Sequence[int], *, scored: bool = True) -> Array:
        """Return logits (R, V) of the token that follows `tokens`, one for each row; (R, 0) where not `scored`."""

    def attention(self) -> Array:
        """Return the attention of the last step over the source, (R, S): the mean of the heads of the last layer."""

    def states(self) -> Array:
        """The states (R, D) that the last logits were made of."""

    def project(self, states: Array) -> Array:
        """Return the logits (N, V) that states (N, D) make, those of many steps in the time of a few."""

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        """Continue with as many rows as `parents`; each continues that row, for its source in `owners`."""

    def rewind(self, length: int) -> None:
        """Go back to one row of one source, fed `length` tokens, which all rows have in common."""

    def finish(
        self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int
    ) -> list[list[Hypothesis]] | None:
        """Search on from the live hypotheses of `sentences` to the end, without constraints, in one call.

        Returns the `n_best` hypotheses of each; None where nothing is known but single steps. `penalties` are the
        divisors for every length, `early_stop_rank` the rank of `DecodingOptions`.
        """

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        """Return the `k` largest of each row (N, M) and their indices, the lowest index first among equals."""

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        """Return the largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""

    def token_scores(self, logits: Array, tokens: Array) -> Array:
        """Return (N, 3) for one token (N,) of each row (N, M): log-probability, margin to the best other, entropy."""


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
    members: int = 1
    """Models whose probabilities are averaged."""

    def __str__(self) -> str:
        threads = plural(self.threads, "thread")
        levels = {"": "", "native": msg(" (compiled on this computer)")}
        kernels = levels.get(self.instructions, msg(" (for {instructions})", self.instructions))
        why = msg("; not native: {why_not_native}", self.why_not_native) if self.why_not_native else ""
        precision = self.precision + (msg(" ({why})", self.why_precision) if self.why_precision else "")
        words = msg(", words of a shortlist") if self.has_shortlist else ""
        words += msg(", the mean of {count} models", self.members) if self.members > 1 else ""
        return msg("{name} engine{kernels}, {precision}, {threads}{shortlist}{note}").fill(
            self.name, kernels, precision, threads, words, why
        )


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Hold what a search is asked for single sources, in addition to its options."""

    numbers: Sequence[int] | None = None
    """The numbers of the sentences, by default from 0: with the seed they decide what sampling draws."""
    constraints: Sequence[Constraint | None] | None = None
    """One a source: beam search and greedy decoding write only what meets it; sampling has none."""
    neighbours: Sequence[Neighbours | None] = ()
    """One a source: search holds tokens that followed like states for likelier."""
    threads: int | None = None
    """By default those of the engine."""

    def needs_steps(self, options: DecodingOptions) -> bool:
        """Return whether tokens are chosen in Python, step by step: all but plain search is."""
        return isinstance(options, SamplingOptions) or options.limits_repetition or self.constraints is not None


PLAIN_SEARCH = SearchRequest()


class Engine(Protocol):
    """An engine computes with the weights of one translator and is chosen once, when they are loaded."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision, threads and instruction set."""

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        """Encode sources (ids without an end mark, none empty) with `threads` threads, by default the engine's."""

    def search(
        self, memory: Memory, options: DecodingOptions, asked: SearchRequest = PLAIN_SEARCH
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first, found by the algorithm that the options stand for."""

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> Steps:
        """Single steps over sources that are read, with so many rows for each; greedy decoding has one."""


# The contract of an engine for classifiers, language models and sentence encoders.

Rows = Sequence[Sequence[int]]
"""Ids of texts as the model is given them, special tokens included; none is empty."""


class TextEngine(Protocol):
    """An engine computes states and vectors of texts with the weights of one model and is chosen once, at loading."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision, threads and instruction set."""

    @property
    def width(self) -> int:
        """D, the entries of a vector."""

    def hidden(self, rows: Rows) -> Memory:
        """Return the state of every id, before any output layer; the states at padding are undefined."""

    def pool(self, memory: Memory) -> Array:
        """Return one vector (B, D) a text from the states at its real positions."""


class ClassifyingEngine(TextEngine, Protocol):
    """The engine of a classifier."""

    def logits(self, rows: Rows, shown: Array | None = None) -> Array:
        """Return a logit (B, C) for each class, or (B, S, C) for each id; where one output decides, the first has 0.

        Ids where `shown` (B, S), if given, is False are hidden from all others; of each row the first is shown.
        """


class WritingEngine(TextEngine, Protocol):
    """The engine of a language model."""

    @property
    def reads_ahead(self) -> bool:
        """Return whether a token has the same bits alone and among others, so that `next_logits` can give many."""

    def nats(self, windows: Array, skipped: Sequence[int]) -> float:
        """Return the negative log-likelihood of ids (B, T+1), each given those before it, without the first `skipped`.

        The first id of a window is only read.
        """

    def start_cache(self) -> Any:
        """Return what rows have read, nothing so far: its `length` counts positions, its `keep` keeps some rows."""

    def next_logits(self, tokens: Array, cache: Any, count: int = 1) -> Array:
        """Return logits (R, V) of the token after `tokens` (R, T), which stand after the positions in the cache.

        A `count` above 1, of one row and an engine that `reads_ahead`, asks for those after each of the last tokens.
        """
