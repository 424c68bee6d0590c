"""What a translator thinks of translations that are given: for each token how likely it was, and where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID


@dataclass(frozen=True, slots=True)
class ForcedScores:
    """Of T target tokens, the end mark included, over S source tokens, the end mark included."""

    log_probabilities: Array
    """(T,), in nats."""
    margins: Array
    """(T,): above the best other token, in nats; negative where the model would have written another."""
    entropies: Array
    """(T,): of the distribution over the vocabulary, in nats."""
    attention: Array
    """(T, S): cross-attention of the last layer, the mean of its heads; rows sum to one."""


def forced_scores(
    engine: Engine, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[ForcedScores]:
    """Read each source and write its target (ids without end marks; no source is empty), all side by side."""
    memory = engine.encode(sources)
    steps = engine.steps(memory, 1)
    wanted = [[*target, EOS_ID] for target in targets]
    columns: list[list[tuple[float, float, float]]] = [[] for _ in targets]
    looks: list[list[Array]] = [[] for _ in targets]
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
        for place, row in enumerate(rows):
            columns[row].append((float(own[place]), float(margins[place]), float(entropies[place])))
            looks[row].append(attention[place, : memory.lengths[row]].copy())
        position += 1
        staying = [place for place, row in enumerate(rows) if position < len(wanted[row])]
        tokens = [wanted[rows[place]][position - 1] for place in staying]
        rows = [rows[place] for place in staying]
        steps.continue_from(staying, rows)
    found = []
    for column, look in zip(columns, looks, strict=True):
        log_probabilities, margins, spread = np.array(column, np.float64).T
        found.append(ForcedScores(log_probabilities, margins, spread, np.array(look, np.float64)))
    return found
