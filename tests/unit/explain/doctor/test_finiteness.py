"""A number that is none is found wherever it hides, and so is a parameter that nothing teaches."""

from __future__ import annotations

import pytest
import torch
from tests.unit.explain.doctor.patients import diagnosis, violation
from tests.unit.models.small import small_model

from dikkat.nn.layers import FeedForward


def test_one_embedding_that_no_sentence_uses() -> None:
    model = small_model(vocab_size=3000)
    with torch.no_grad():
        model.source_embedding.weight[2999, 3] = torch.inf
    result = violation(model, "no NaN")
    assert result.outcome == "fail"
    assert result.violation >= 1
    assert result.where == "weights in float32"


def test_what_only_bfloat16_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FeedForward.forward

    def overflowing(self: FeedForward, x: torch.Tensor) -> torch.Tensor:
        return whole(self, x) * (torch.inf if x.dtype == torch.bfloat16 else 1.0)

    monkeypatch.setattr(FeedForward, "forward", overflowing)
    result = violation(small_model(), "no NaN")
    assert (result.outcome, result.where) == ("fail", "logits in bfloat16")
    assert diagnosis(small_model()) == ({"no NaN"}, set())


def test_a_parameter_that_is_not_used() -> None:
    model = small_model()
    model.register_parameter("stray", torch.nn.Parameter(torch.ones(3)))
    assert diagnosis(model) == ({"every parameter learns"}, set())
    result = violation(model, "every parameter learns")
    assert (result.violation, result.where) == (1.0, "stray")


def test_a_layer_cut_off_from_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FeedForward.forward
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: whole(self, x.detach()).detach())
    result = violation(small_model(), "every parameter learns")
    # weight and bias of two linear layers and of the norm before them, in each of four blocks
    assert result.violation == 24.0
    assert "feed_forward" in result.where
