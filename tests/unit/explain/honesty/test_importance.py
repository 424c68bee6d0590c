"""What heads are worth, and which one aligns, on numbers made up for the purpose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dikkat.config import ModelConfig
from dikkat.evaluation.alignment_error import parse_alignments
from dikkat.explain.honesty.ablation import HeadName, head_names
from dikkat.explain.honesty.alignment_head import Agreements, WordNumbers, choose_alignment_head
from dikkat.explain.honesty.importance import Cost, Quality, cost_without, head_costs, least_useful
from dikkat.models.factory import build_model
from dikkat.nn.recorder import MapName

CROSS = MapName("decoder", 0, "cross")


def test_costs_are_differences_to_the_whole_model() -> None:
    config = ModelConfig(vocab_size=9, model_dim=8, num_heads=2, feed_forward_dim=8, encoder_layers=1, decoder_layers=1)
    model = build_model(config, seed=1).eval()
    source = torch.tensor([[4, 5, 2]])

    def measure() -> Quality:
        with torch.no_grad():
            memory = model.encode(source, source != 0)
        return Quality(loss=float(memory.abs().sum()), chrf=float(memory[0, 0, 0]))

    whole = measure()
    told: list[str] = []
    costs = head_costs(model, whole, measure, told.append)
    assert list(costs) == head_names(model)
    assert len(told) == len(costs) == 6
    encoder = [costs[head] for head in costs if head.stack == "encoder"]
    assert all(cost.loss != 0.0 for cost in encoder)
    assert all(costs[head] == Cost(0.0, 0.0) for head in costs if head.stack == "decoder"), (
        "the encoder does not see it"
    )
    assert measure() == whole, "everything is on again"
    both = cost_without(model, [head for head in costs if head.stack == "encoder"], whole, measure)
    assert both not in encoder


def test_the_least_useful_come_first() -> None:
    heads = [HeadName("encoder", 0, "self", number) for number in range(4)]
    costs = {head: Cost(loss, 0.0) for head, loss in zip(heads, (0.3, -0.1, 0.3, 0.2), strict=True)}
    assert least_useful(costs, 3) == [heads[1], heads[3], heads[0]]


def one_hot(places: list[int], keys: int) -> np.ndarray:
    return np.eye(keys)[places]


def test_the_alignment_head_agrees_with_occlusion_or_with_gold() -> None:
    """Three written words and `<eos>`; head 0 looks where occlusion costs, head 1 where people linked."""
    weights = np.stack([one_hot([0, 1, 2, 3], 4), one_hot([2, 1, 0, 3], 4)])
    occluded = one_hot([0, 1, 2, 3], 4)
    words = WordNumbers((0, 1, 2), (0, 1, 2))
    for gold, wanted in ((None, 0), (parse_alignments(["2-0 1-1 0-2"], "gold"), 1)):
        agreements = Agreements(gold)
        agreements.add(CROSS, weights, occluded, occluded, words)
        found = agreements.found()
        chosen = choose_alignment_head(found)
        assert chosen == HeadName("decoder", 0, "cross", wanted)
        if gold is not None:
            scores = found[chosen].scores
            assert scores is not None
            assert scores.error == 0.0
    assert found[HeadName("decoder", 0, "cross", 0)].occlusion == 1.0
    assert found[HeadName("decoder", 0, "cross", 1)].occlusion == pytest.approx(1 / 3)
