"""Measure how much a model loses when heads are switched off, one by one and the least useful ones together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from dikkat.explain.head_analysis.ablation import HeadName, head_names, without_heads
from dikkat_runtime.messages import msg


@dataclass(frozen=True, slots=True)
class Quality:
    """Hold how good a model is on a sample."""

    loss: float
    """Negative log-likelihood in nats: per token under teacher forcing, or per text of a classifier."""
    score: float
    """Score from 0 to 100: chrF of a translator's own output, accuracy or micro F1 of a classifier, else NaN."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the loss of quality against the whole model; negative where the model does better without."""

    loss: float
    """Nats."""
    score: float
    """Points of the score."""


Measure = Callable[[], Quality]
"""Measures the model as it is now, on the same sample each time."""


def cost_without(model: nn.Module, heads: Sequence[HeadName], whole: Quality, measure: Measure) -> Cost:
    """Measure what `model` loses while `heads` are switched off. Raises `UsageError` for an unknown head."""
    with without_heads(model, heads):
        quality = measure()
    return Cost(loss=quality.loss - whole.loss, score=whole.score - quality.score)


def head_costs(
    model: nn.Module, whole: Quality, measure: Measure, watch: Callable[[str], None]
) -> dict[HeadName, Cost]:
    """Measure the cost of each head alone (Michel et al. 2019, section 3.2).

    `watch` receives the name of each head before it is switched off.
    """
    costs = {}
    for head in head_names(model):
        watch(msg("without {head}").fill(head))
        costs[head] = cost_without(model, [head], whole, measure)
    return costs


def least_useful(costs: Mapping[HeadName, Cost], count: int) -> list[HeadName]:
    """Return the `count` heads with the smallest loss, the least useful first; ties keep their order."""
    return sorted(costs, key=lambda head: costs[head].loss)[:count]
