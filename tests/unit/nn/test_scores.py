"""Additive and bilinear scores and additive attention against their formulas in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import softmax_over_allowed, to_numpy

from dikkat.nn.functional import attention, attention_scores
from dikkat.nn.masks import valid_length_mask
from dikkat.nn.scorers import AdditiveAttention, AdditiveScore, BilinearScore


def test_dot_and_scaled_dot_differ_by_the_root_of_the_width() -> None:
    query, key, value = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)
    products = to_numpy(query) @ to_numpy(key).T
    for score, scale in (("dot", 1.0), ("scaled_dot", 0.5)):
        _, weights = attention(query, key, value, score=score)  # type: ignore[arg-type]
        np.testing.assert_allclose(to_numpy(weights), softmax_over_allowed(products * scale, None), rtol=0, atol=1e-6)


@pytest.mark.parametrize("heads", [None, 3])
def test_additive_is_the_formula(heads: int | None) -> None:
    score, lead = AdditiveScore(4, heads), () if heads is None else (2, heads)
    query, key = torch.randn(*lead, 5, 4), torch.randn(*lead, 6, 4)
    vector = to_numpy(score.vector).reshape(-1, 1, 1, 4) if heads else to_numpy(score.vector)
    expected = (np.tanh(to_numpy(query)[..., :, None, :] + to_numpy(key)[..., None, :, :]) * vector).sum(-1)
    np.testing.assert_allclose(to_numpy(score(query, key)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("heads", [None, 3])
def test_bilinear_is_the_formula_for_queries_and_keys_of_two_widths(heads: int | None) -> None:
    score, lead = BilinearScore(4, 7, heads), () if heads is None else (2, heads)
    query, key = torch.randn(*lead, 5, 4), torch.randn(*lead, 6, 7)
    weight = to_numpy(score.weight).reshape(*lead[1:], 4, 7)
    expected = to_numpy(query) @ weight @ np.swapaxes(to_numpy(key), -2, -1)
    np.testing.assert_allclose(to_numpy(attention_scores(query, key, score)), expected, rtol=0, atol=1e-5)


@pytest.mark.seed("E20")
def test_additive_attention_is_bahdanau() -> None:
    """alpha = softmax(v tanh(W q + U k)), context = alpha V (Bahdanau et al. 2015, appendix A.1.2)."""
    module = AdditiveAttention(20, 2, 8, bias=True, dropout=0.5).eval()
    query, key, value = torch.randn(2, 3, 20), torch.randn(2, 10, 2), torch.randn(2, 10, 4)
    mask = valid_length_mask(torch.tensor([2, 6]), 10)[:, 0]
    q = to_numpy(query) @ to_numpy(module.query_projection.weight).T + to_numpy(module.query_projection.bias)
    k = to_numpy(key) @ to_numpy(module.key_projection.weight).T + to_numpy(module.key_projection.bias)
    scores = np.tanh(q[:, :, None] + k[:, None]) @ to_numpy(module.score.vector)
    weights = softmax_over_allowed(scores, mask.numpy())
    np.testing.assert_allclose(to_numpy(module.weights(query, key, mask)), weights, rtol=0, atol=1e-6)
    output = module(query, key, value, mask)
    np.testing.assert_allclose(to_numpy(output), weights @ to_numpy(value), rtol=0, atol=1e-5)
    assert not torch.allclose(module.train()(query, key, value, mask), output)


def test_equal_keys_are_attended_to_equally() -> None:
    """The example of the textbook: equal keys, values 0 ... 39 in rows of four, valid lengths 2 and 6."""
    module, value = AdditiveAttention(20, 2, 8), torch.arange(40.0).view(1, 10, 4).expand(2, -1, -1)
    mask = valid_length_mask(torch.tensor([2, 6]), 10)[:, 0]
    output = module(torch.randn(2, 1, 20), torch.ones(2, 10, 2), value, mask)
    expected = torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]])
    torch.testing.assert_close(output, expected)


def test_additive_attention_gives_every_parameter_a_gradient_and_the_keys_are_the_values() -> None:
    module, query, key = AdditiveAttention(3, 5, 4), torch.randn(2, 3, 3), torch.randn(2, 6, 5)
    output = module(query, key)
    assert torch.equal(output, module(query, key, key))
    output.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())


def test_additive_attention_refuses_other_widths() -> None:
    module = AdditiveAttention(3, 5, 4)
    with pytest.raises(ValueError, match="query must have the width 3, but has 5"):
        module(torch.randn(1, 2, 5), torch.randn(1, 2, 5))
    with pytest.raises(ValueError, match="key must have the width 5, but has 3"):
        module(torch.randn(1, 2, 3), torch.randn(1, 2, 3))
