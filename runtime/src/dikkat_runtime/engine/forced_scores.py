"""Score given translations with a translator: the probability and the attention of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.contract import Engine, Steps
from dikkat_runtime.engine.hypotheses import Memory
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID


@dataclass(frozen=True, slots=True)
class ForcedScores:
    """The scores of T target tokens, the end mark included, over S source tokens."""

    log_probabilities: Array
    """(T,), in nats."""
    margins: Array
    """(T,): distance to the best other token, in nats; negative where the model would have written another."""
    entropies: Array
    """(T,): entropy of the distribution over the vocabulary, in nats."""
    attention: Array
    """(T, S): cross-attention of the last layer, the mean of its heads; rows sum to one."""
    source_tokens: int
    """Tokens of the source without an end mark, the first columns of `attention`."""


@dataclass(frozen=True, slots=True)
class ForcedStep:
    """One step over targets that are read side by side; R of them have a token at this position."""

    position: int
    targets: Sequence[int]
    """(R,) numbers of these targets."""
    tokens: Array
    """(R,) their tokens here; the last of a target is the end mark."""
    logits: Array
    """(R, V)."""
    normalizers: tuple[Array, Array]
    """(R, 1) each: the largest logit, and the logarithm of the sum of exp(logit - largest)."""
    steps: Steps

    def log_probabilities(self, tokens: Array) -> Array:
        """Return the log-probability (R,) of one token (R,) for each row."""
        largest, log_sums = self.normalizers
        chosen = self.logits[np.arange(len(tokens)), tokens]
        return np.asarray(chosen - largest[:, 0] - log_sums[:, 0])


def forced_steps(engine: Engine, memory: Memory, targets: Sequence[Sequence[int]]) -> Iterator[ForcedStep]:
    """Write the target of each source in `memory` (ids without end marks), and yield every step.

    Of a target that is longer than `Steps.limit` only the beginning is written.
    """
    steps = engine.steps(memory, 1)
    wanted = [[*target, EOS_ID][: steps.limit] for target in targets]
    rows = list(range(len(targets)))
    tokens = [BOS_ID] * len(rows)
    position = 0
    while rows:
        logits = steps.step(tokens)
        chosen = np.array([wanted[row][position] for row in rows])
        yield ForcedStep(position, rows, chosen, logits, steps.log_normalizers(logits), steps)
        position += 1
        staying = [index for index, row in enumerate(rows) if position < len(wanted[row])]
        tokens = [wanted[rows[index]][position - 1] for index in staying]
        rows = [rows[index] for index in staying]
        steps.continue_from(staying, rows)


def forced_scores(
    engine: Engine, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[ForcedScores]:
    """Score each target after its source (ids without end marks; no source is empty), all side by side.

    Tokens beyond `Steps.limit`, which the model cannot write, have the probability 0.
    """
    memory = engine.encode(sources)
    columns: list[list[tuple[float, float, float]]] = [[] for _ in targets]
    attention_rows: list[list[Array]] = [[] for _ in targets]
    for step in forced_steps(engine, memory, targets):
        largest, log_sums = step.normalizers
        scores = step.logits - largest - log_sums
        entropies = -(np.exp(scores) * scores).sum(axis=1)
        rows = np.arange(len(step.targets))
        own = scores[rows, step.tokens].copy()
        scores[rows, step.tokens] = -np.inf
        margins = own - scores.max(axis=1)
        attention = step.steps.attention()
        for row, number in enumerate(step.targets):
            columns[number].append((float(own[row]), float(margins[row]), float(entropies[row])))
            attention_rows[number].append(attention[row, : memory.lengths[number]].copy())
    results = []
    for source, target, column, rows_of_target in zip(sources, targets, columns, attention_rows, strict=True):
        unwritten = len(target) + 1 - len(column)
        column += [(-np.inf, -np.inf, 0.0)] * unwritten
        rows_of_target += [np.zeros_like(rows_of_target[0])] * unwritten
        log_probabilities, margins, spread = np.array(column, np.float64).T
        attention = np.array(rows_of_target, np.float64)
        results.append(ForcedScores(log_probabilities, margins, spread, attention, len(source)))
    return results
