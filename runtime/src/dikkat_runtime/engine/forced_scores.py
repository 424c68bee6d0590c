"""Score given translations with a translator: the probability and the attention of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID


@dataclass(frozen=True, slots=True)
class ForcedScores:
    """The scores of T target tokens over S source tokens, both with the end mark."""

    log_probabilities: Array
    """(T,), in nats."""
    margins: Array
    """(T,): distance to the best other token, in nats; negative where the model would have written another."""
    entropies: Array
    """(T,): entropy of the distribution over the vocabulary, in nats."""
    attention: Array
    """(T, S): cross-attention of the last layer, the mean of its heads; rows sum to one."""


def forced_scores(
    engine: Engine, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[ForcedScores]:
    """Score each target after its source (ids without end marks; no source is empty), all side by side."""
    memory = engine.encode(sources)
    steps = engine.steps(memory, 1)
    wanted = [[*target, EOS_ID] for target in targets]
    columns: list[list[tuple[float, float, float]]] = [[] for _ in targets]
    attention_rows: list[list[Array]] = [[] for _ in targets]
    rows = list(range(len(targets)))
    tokens = [BOS_ID] * len(rows)
    position = 0
    while rows:
        logits = steps.step(tokens)
        largest, log_sums = steps.log_normalizers(logits)
        scores = logits - largest - log_sums
        entropies = -(np.exp(scores) * scores).sum(axis=1)
        chosen = np.array([wanted[row][position] for row in rows])
        own = scores[np.arange(len(rows)), chosen].copy()
        scores[np.arange(len(rows)), chosen] = -np.inf
        margins = own - scores.max(axis=1)
        attention = steps.attention()
        for index, row in enumerate(rows):
            columns[row].append((float(own[index]), float(margins[index]), float(entropies[index])))
            attention_rows[row].append(attention[index, : memory.lengths[row]].copy())
        position += 1
        staying = [index for index, row in enumerate(rows) if position < len(wanted[row])]
        tokens = [wanted[rows[index]][position - 1] for index in staying]
        rows = [rows[index] for index in staying]
        steps.continue_from(staying, rows)
    results = []
    for column, rows_of_target in zip(columns, attention_rows, strict=True):
        log_probabilities, margins, spread = np.array(column, np.float64).T
        results.append(ForcedScores(log_probabilities, margins, spread, np.array(rows_of_target, np.float64)))
    return results
