"""How much a model loses when heads are switched off, one by one and the least useful ones together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from dikkat.explain.head_analysis.ablation import HeadName, head_names, without_heads


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a model is on a sample."""

    loss: float
    """Negative log-likelihood in nats: a token, under teacher forcing, or a text of a classifier."""
    score: float
    """From 0 to 100: chrF of what a translator writes itself, accuracy or micro F1 of a classifier; else NaN."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What is lost against the whole model; negative where the model does better without."""

    loss: float
    """Nats."""
    score: float
    """Points of the score."""


Measure = Callable[[], Quality]
"""Measures the model as it is now, on the same sample each time."""


def cost_without(model: nn.Module, heads: Sequence[HeadName], whole: Quality, measure: Measure) -> Cost:
    """What `model` loses while `heads` are switched off. Raises `UsageError` for a head that it does not have."""
    with without_heads(model, heads):
        found = measure()
    return Cost(loss=found.loss - whole.loss, score=whole.score - found.score)


def head_costs(
    model: nn.Module, whole: Quality, measure: Measure, watch: Callable[[str], None]
) -> dict[HeadName, Cost]:
    """What each head alone is worth (Michel et al. 2019, section 3.2); `watch` hears of each before it is tried."""
    costs = {}
    for head in head_names(model):
        watch(f"without {head}")
        costs[head] = cost_without(model, [head], whole, measure)
    return costs


def least_useful(costs: Mapping[HeadName, Cost], count: int) -> list[HeadName]:
    """The `count` heads whose loss is least missed, the least useful first; those before of equals."""
    return sorted(costs, key=lambda head: costs[head].loss)[:count]
