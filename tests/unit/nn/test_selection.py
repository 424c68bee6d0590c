"""From scores to weights: soft, argmax, straight through, drawn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.nn.functional import Selection, attention, attention_weights, gumbel, selection_rule, soft, straight_through

HARD: list[Selection] = ["argmax", "straight_through", "gumbel"]


@pytest.mark.parametrize("selection", HARD)
def test_hard_weights_are_one_hot_among_the_allowed_keys(selection: Selection) -> None:
    scores, mask = torch.randn(40, 6, 7), torch.rand(40, 6, 7) < 0.4
    weights = attention_weights(scores, mask, selection=selection)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.sum(-1), mask.any(-1).float())
    assert not (weights.bool() & ~mask).any()


def test_straight_through_is_argmax_forwards_and_softmax_backwards() -> None:
    inputs, value = torch.randn(5, 7), torch.randn(7, 3)
    gradients = []
    for rule in (straight_through, soft):
        scores = inputs.clone().requires_grad_()
        (rule(scores) @ value).sum().backward()
        gradients.append(scores.grad)
    assert gradients[0] is not None
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[0], gradients[1])
    assert torch.equal(straight_through(inputs), selection_rule("argmax")(inputs))


def test_argmax_lets_no_gradient_through() -> None:
    query, key, value = (torch.randn(4, 3, requires_grad=True) for _ in range(3))
    attention(query, key, value, selection="argmax")[0].sum().backward()
    assert query.grad is None
    assert value.grad is not None


def test_a_drawn_key_comes_as_often_as_its_soft_weight_says() -> None:
    """20,000 draws: a share deviates by less than five standard deviations."""
    scores, draws = torch.tensor([1.2, -0.3, 0.4, 2.0]), 20_000
    expected = torch.softmax(scores, -1)
    shares = gumbel(scores.expand(1, draws, 4)).mean((0, 1))
    deviation = (expected * (1 - expected) / draws).sqrt()
    assert ((shares - expected).abs() < 5 * deviation).all()


def test_a_draw_has_the_gradient_of_its_relaxation() -> None:
    """softmax(scores + noise), with the noise that the same seed draws (Jang et al. 2017, section 2.2)."""
    inputs, value = torch.randn(5, 7), torch.randn(7)

    def gradient(weights: Tensor, scores: Tensor) -> Tensor:
        (weights @ value).sum().backward()
        assert scores.grad is not None
        return scores.grad

    scores = inputs.clone().requires_grad_()
    torch.manual_seed(3)
    drawn = gradient(gumbel(scores), scores)
    torch.manual_seed(3)
    noise = -torch.empty_like(inputs).exponential_().log()
    scores = inputs.clone().requires_grad_()
    torch.testing.assert_close(drawn, gradient(torch.softmax(scores + noise, -1), scores))


def test_the_seed_decides_the_draw() -> None:
    scores = torch.zeros(50, 9)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(gumbel(scores))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_hard_is_the_other_spelling_of_argmax() -> None:
    query, key = torch.randn(4, 3), torch.randn(5, 3)
    assert torch.equal(attention(query, key, key, hard=True)[1], attention(query, key, key, selection="argmax")[1])


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(ValueError, match="selection must be one of soft, argmax, straight_through, gumbel, not 'top'"):
        selection_rule("top")
