"""Costs of heads of a model in which they are known: without effect, or measured by hand."""

from __future__ import annotations

import pytest
import torch
from tests.unit.models.small import small_model, some_tokens

from dikkat.explain.head_analysis.importance import (
    Cost,
    HeadName,
    Quality,
    cost_without,
    head_costs,
    head_names,
    least_useful,
)
from dikkat_runtime.errors import UsageError

IDLE = HeadName("decoder", 0, "cross", 2)


def test_costs() -> None:
    model = small_model()
    out_projection = "decoder.blocks.0.cross_attention.out_projection.weight"
    with torch.no_grad():
        model.get_parameter(out_projection)[:, 8:12] = 0.0
    source, target, mask = some_tokens(4, 5), some_tokens(4, 6), torch.ones(4, 5, dtype=torch.bool)

    def measure() -> Quality:
        with torch.no_grad():
            rows = model(source, target, mask).log_softmax(-1)
        likelihood = rows[:, :-1].gather(2, target[:, 1:, None]).mean()
        return Quality(loss=-float(likelihood), score=float(rows.exp().max(-1).values.mean()))

    whole = measure()
    costs = head_costs(model, whole, measure)
    assert list(costs) == head_names(model)
    # a head is silenced by a hook, and at a hook PyTorch does what native code does else: rounding differs
    assert (costs[IDLE].loss, costs[IDLE].score) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert all(abs(cost.loss) > 1e-5 for head, cost in costs.items() if head != IDLE)
    assert measure() == whole

    with torch.no_grad():
        weight = model.get_parameter(out_projection)
        kept = weight.clone()
        weight[:, :4] = 0.0
        by_hand = measure()
        weight.copy_(kept)
    result = cost_without(model, [HeadName("decoder", 0, "cross", 0), IDLE], whole, measure)
    assert result.loss == pytest.approx(by_hand.loss - whole.loss, abs=1e-6)
    assert result.score == pytest.approx(whole.score - by_hand.score, abs=1e-6)


def test_the_least_useful_come_first() -> None:
    heads = [HeadName("encoder", 0, "self", number) for number in range(4)]
    costs = dict(zip(heads, (Cost(0.2, 0.0), Cost(-0.1, 9.0), Cost(0.1, 0.0), Cost(-0.1, 0.0)), strict=True))
    assert least_useful(costs, 3) == [heads[1], heads[3], heads[2]]
    assert least_useful(costs, 0) == []


def test_a_head_there_is_not() -> None:
    with pytest.raises(UsageError, match="there is no head encoder layer 9, self, head 1"):
        cost_without(small_model(), [HeadName("encoder", 8, "self", 0)], Quality(0.0, 0.0), lambda: Quality(0.0, 0.0))
