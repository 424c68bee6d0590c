"""Measure how much a model loses when heads are switched off, one by one and the least useful ones together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of
from dikkat_runtime.errors import UsageError, joined, msg

# Switch heads off and let the model run without them.


class HeadName(NamedTuple):
    """Name one head; layer and head are counted from 0, shown from 1."""

    stack: str
    layer: int
    kind: Literal["self", "cross"]
    head: int

    def __str__(self) -> str:
        return msg(
            "{stack} layer {layer}, {kind}, head {head}", msg(self.stack), self.layer + 1, self.kind, self.head + 1
        )


def head_names(model: nn.Module) -> list[HeadName]:
    """Return every head of `model`, in the order of its modules."""
    return [HeadName(*name, head) for name, module in _attentions(model).items() for head in range(module.num_heads)]


@contextmanager
def without_heads(model: nn.Module, heads: Collection[HeadName]) -> Iterator[None]:
    """Set the outputs of `heads` to zero, before the output projection, while the body runs.

    The same as zeros in the columns of that projection which read these heads (Michel et al. 2019, section 2.3), in
    training, evaluation and stepwise decoding; no weight is touched, and the other heads compute what they always do.
    Raises `UsageError` for a head that `model` does not have.
    """
    attentions = _attentions(model)
    known = head_names(model)
    off: dict[MapName, list[int]] = {}
    for head in heads:
        if head not in known:
            raise UsageError("there is no head {head}; choose from {choices}", head, _choices(known))
        off.setdefault(MapName(head.stack, head.layer, head.kind), []).append(head.head)
    with ExitStack() as handles:
        for name, numbers in off.items():
            module = attentions[name]
            hook = _silencer(module, numbers)
            handles.enter_context(module.out_projection.register_forward_pre_hook(hook))
        yield


def _silencer(module: MultiHeadAttention, heads: list[int]) -> Callable[[nn.Module, tuple[Tensor, ...]], Tensor]:
    off = torch.zeros(module.num_heads, dtype=torch.bool, device=next(module.parameters()).device)
    off[heads] = True
    # (H,) -> (H * K,)
    columns = off.repeat_interleave(module.head_dim)
    # filled, not multiplied: zero times infinity is not a number
    return lambda _, inputs: inputs[0].masked_fill(columns, 0.0)


def _attentions(model: nn.Module) -> dict[MapName, MultiHeadAttention]:
    return {name_of(path): module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def _choices(known: list[HeadName]) -> str:
    """For example: encoder self (3 layers of 4 heads), decoder self (3 layers of 4 heads), …"""
    last: dict[tuple[str, str], HeadName] = {(name.stack, name.kind): name for name in known}
    return joined(
        ", ",
        (
            msg("{stack} {kind} ({layer} layers of {head} heads)", msg(stack), kind, name.layer + 1, name.head + 1)
            for (stack, kind), name in last.items()
        ),
    )


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
        watch(msg("without {head}", head))
        costs[head] = cost_without(model, [head], whole, measure)
    return costs


def least_useful(costs: Mapping[HeadName, Cost], count: int) -> list[HeadName]:
    """Return the `count` heads with the smallest loss, the least useful first; ties keep their order."""
    return sorted(costs, key=lambda head: costs[head].loss)[:count]
