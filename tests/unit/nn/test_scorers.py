"""Every form of multi-head attention against numpy float64: output, weights recorded, cache, every path."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.nn.forms import FORMS, Form, taking
from tests.unit.nn.reference import Array, softmax_over_allowed, to_numpy
from torch import Tensor

from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.masks import causal_mask, key_mask, window_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.named_positions import attention_positions
from dikkat.nn.recorder import record_attention
from dikkat.nn.relative import alibi_slopes
from dikkat.nn.scorers import AttentionScorer, DotProductScorer

D, H, K = 8, 2, 4
SCORES = ["scaled_dot", "dot", "additive", "bilinear"]
POSITIONS = ["none", "rotary", "alibi", "relative", "relative_buckets"]
every_combination = pytest.mark.parametrize(("score", "positions"), list(itertools.product(SCORES, POSITIONS)))


def build(positions: str = "none", **options: Any) -> MultiHeadAttention:
    """No parameter at a start that hides mistakes."""
    heads = attention_positions(positions, H, options.get("head_dim", K), causal=True)
    module = MultiHeadAttention(D, H, positions=heads, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return module


def expected_weights(module: MultiHeadAttention, seen: Observation, score: str, positions: str) -> Array:
    """The formula, from queries and keys that are already projected and, under rotary, turned."""
    q, k = to_numpy(seen.query), to_numpy(seen.key)
    result = module.comparison
    temperature = K**-0.5 if score == "scaled_dot" else 1.0
    if score == "bilinear":
        assert isinstance(result, AttentionScorer)
        assert result.bilinear is not None
        q = q @ to_numpy(result.bilinear.weight).reshape(H, K, K)
    if score == "additive":
        assert isinstance(result, AttentionScorer)
        vector = to_numpy(dict(result.named_parameters())["score.vector"]).reshape(H, 1, 1, K)
        scores = (np.tanh(q[..., :, None, :] + k[..., None, :, :]) * vector).sum(-1)
    else:
        scores = q @ np.swapaxes(k, -2, -1) * temperature
    scores = scores + bias(result, q * temperature, k.shape[2], positions)
    return softmax_over_allowed(scores, None if seen.mask is None else seen.mask.numpy())


def bias(found: DotProductScorer | AttentionScorer, q: Array, length: int, positions: str) -> Array:
    result, first = np.zeros((*q.shape[:3], length)), length - q.shape[2]
    if positions in ("none", "rotary"):
        return result
    assert isinstance(found, AttentionScorer)
    tables = {name: to_numpy(tensor) for name, tensor in found.named_parameters()}
    for head, t, s in itertools.product(range(H), range(q.shape[2]), range(length)):
        away = s - (t + first)
        if positions == "alibi":
            result[:, head, t, s] = -alibi_slopes(H)[head] * abs(away)
        elif positions == "relative":
            result[:, head, t, s] = q[:, head, t] @ tables["bias.embedding"][max(-16, min(16, away)) + 16]
        else:  # buckets of a causal attention: distances below 16 alone, the future in the first
            result[:, head, t, s] = tables["bias.embedding"][max(-away, 0), head]
    return result


@every_combination
@pytest.mark.parametrize("masked", [False, True])
def test_weights_and_output_are_the_formula(score: str, positions: str, masked: bool) -> None:
    module, x = build(positions, score=score), torch.randn(2, 5, D)
    mask = causal_mask(5) & key_mask(torch.tensor([[True] * 5, [False, True, True, False, True]])) if masked else None
    seen: list[Observation] = []
    module.observe(seen.append)
    with record_attention(module) as maps:
        output = module(x, mask=mask)
    ((recorded,),) = maps.values()
    weights = expected_weights(module, seen[0], score, positions)
    np.testing.assert_allclose(to_numpy(recorded), weights, rtol=0, atol=1e-5)
    context = np.swapaxes(weights @ to_numpy(seen[0].value), 1, 2).reshape(2, 5, D)
    projection = module.out_projection
    expected = context @ to_numpy(projection.weight).T + to_numpy(projection.bias)
    np.testing.assert_allclose(to_numpy(output), expected, rtol=0, atol=1e-5)


@every_combination
@pytest.mark.parametrize("window", [None, 2])
def test_a_cache_gives_the_rows_of_causal_attention(score: str, positions: str, window: int | None) -> None:
    """20 steps of one position, and once two at a time; keys shared by both heads."""
    options: dict[str, Any] = {"score": score, "window": window, "num_kv_heads": 1}
    module, x = build(positions, **options, global_tokens=0 if window is None else 1), torch.randn(3, 20, D)
    with torch.no_grad():
        whole = module(x, mask=causal_mask(20))
        for size in (1, 2):
            cache, rows = SelfAttentionCache(), []
            for start in range(0, 20, size):
                mask = None if size == 1 else causal_mask(size, start + size)
                rows.append(module(x[:, start : start + size], mask=mask, cache=cache))
            torch.testing.assert_close(torch.cat(rows, dim=1), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_make_order_count_and_nothing_else_does(positions: str) -> None:
    """A02: without positions attention maps sets; with them it does not."""
    module, x, order = build(positions), torch.randn(1, 7, D), torch.randperm(7)
    same = torch.allclose(module(x[:, order]), module(x)[:, order], atol=1e-5)
    assert same == (positions == "none")


@pytest.mark.parametrize("positions", ["alibi", "relative", "relative_buckets"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_a_bias_leaves_fully_masked_rows_zero_with_finite_gradients(
    positions: str, dtype: torch.dtype, form: Form
) -> None:
    module, x = build(positions).to(dtype), torch.randn(2, 6, D).to(dtype).requires_grad_()
    mask = causal_mask(6) & key_mask(torch.tensor([[True] * 6, [False, False, True, True, True, True]]))
    with taking(form), record_attention(module) as maps:
        output = module(x, mask=mask)
    ((weights,),) = maps.values()
    assert (weights[1, :, :2] == 0).all()
    bias_of_output = module.out_projection.bias.expand(2, D)
    torch.testing.assert_close(output[1, :2], bias_of_output, rtol=0, atol=0)
    output.float().square().sum().backward()
    gradients = [x.grad, *(parameter.grad for parameter in module.parameters())]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


def biased_paths() -> dict[str, Callable[..., Tensor]]:
    def reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        return attention(query, key, value, mask, bias=bias)[0]

    def kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        with taking("kernel"):
            return fused_attention(query, key, value, mask, bias=bias)

    def products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        return fused_attention(query, key, value, mask, bias=bias)

    return {"reference": reference, "kernel": kernel, "products": products}


@pytest.mark.parametrize("path", biased_paths())
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 4, 5), (4, 5)])
def test_a_bias_goes_through_every_path(path: str, shape: tuple[int, ...]) -> None:
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    bias, mask = 3 * torch.randn(shape), torch.rand(2, 1, 4, 5) < 0.6
    mask[0, :, 1] = False
    scores = to_numpy(query) @ np.swapaxes(to_numpy(key), -2, -1) / np.sqrt(8) + to_numpy(bias)
    expected = softmax_over_allowed(scores, mask.numpy()) @ to_numpy(value)
    result = biased_paths()[path](query, key, value, mask, bias)
    np.testing.assert_allclose(to_numpy(result), expected, rtol=0, atol=1e-5)
    assert (result[0, :, 1] == 0).all()


@pytest.mark.parametrize("path", biased_paths())
def test_a_bias_gets_its_gradient_on_every_path(path: str) -> None:
    query, key, value = (torch.randn(1, 2, size, 3, dtype=torch.float64, requires_grad=True) for size in (3, 4, 4))
    bias, mask = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), torch.rand(1, 1, 3, 4) < 0.7
    run = biased_paths()[path]
    assert torch.autograd.gradcheck(lambda q, k, v, b: run(q, k, v, mask, b), (query, key, value, bias))


@pytest.mark.parametrize("selection", ["argmax", "straight_through", "gumbel"])
@pytest.mark.parametrize("training", [False, True])
def test_hard_selections_are_recorded_as_they_were_used(selection: str, training: bool) -> None:
    """Also drawn ones: what is recorded is what was drawn, and recording changes no later draw."""
    module, x = build("alibi", selection=selection).train(training), torch.randn(2, 5, D)
    torch.manual_seed(5)
    silent = module(x, mask=causal_mask(5))
    seen: list[Observation] = []
    module.observe(seen.append)
    torch.manual_seed(5)
    with record_attention(module) as maps:
        output = module(x, mask=causal_mask(5))
    ((weights,),) = maps.values()
    assert torch.equal(output, silent)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    rebuilt = module.out_projection((weights @ seen[0].value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, rebuilt, rtol=0, atol=1e-6)


def test_a_drawn_selection_draws_in_training_only() -> None:
    module, x = build(selection="gumbel"), torch.randn(2, 9, D)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("score", SCORES)
def test_beta_multiplies_the_scores(score: str, beta: float) -> None:
    """Scores are the logarithms of the weights at beta 1, but for a constant a row."""
    module, x = build(score=score, beta=1.0), torch.randn(2, 5, D)
    seen: list[Observation] = []
    module.observe(seen.append)
    module(x)
    logarithms = np.log(to_numpy(module.weights(seen[0].query, seen[0].key)))
    module.comparison.beta = beta
    result = to_numpy(module.weights(seen[0].query, seen[0].key))
    np.testing.assert_allclose(result, softmax_over_allowed(beta * logarithms, None), rtol=0, atol=1e-5)
    output = module(x)
    rebuilt = module.out_projection((torch.from_numpy(result).float() @ seen[0].value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, rebuilt, rtol=0, atol=1e-5)


def test_a_callable_scores() -> None:
    module, x = build(score=lambda q, k: -torch.cdist(q, k)), torch.randn(2, 5, D)
    seen: list[Observation] = []
    module.observe(seen.append)
    with record_attention(module) as maps:
        module(x)
    ((weights,),) = maps.values()
    q, k = to_numpy(seen[0].query), to_numpy(seen[0].key)
    away = np.linalg.norm(q[..., :, None, :] - k[..., None, :, :], axis=-1)
    np.testing.assert_allclose(to_numpy(weights), softmax_over_allowed(-away, None), rtol=0, atol=1e-5)


def test_a_window_is_a_mask() -> None:
    module, x = build(), torch.randn(2, 9, D)
    near, real = (
        window_mask(9, window=2, global_tokens=1),
        key_mask(torch.tensor([[True] * 9, [True] * 5 + [False] * 4])),
    )
    windowed = MultiHeadAttention(D, H, window=2, global_tokens=1)
    windowed.load_state_dict(module.state_dict())
    assert torch.equal(windowed(x), module(x, mask=near))
    assert torch.equal(windowed(x, mask=real), module(x, mask=near & real))


def test_choices_are_made_when_built_and_the_default_has_none() -> None:
    assert isinstance(MultiHeadAttention(D, H).comparison, DotProductScorer)
    assert isinstance(build("rotary", score="dot").comparison, DotProductScorer)
    for options in ({"score": "additive"}, {"score": "bilinear"}, {"selection": "argmax"}):
        assert isinstance(build(**options).comparison, AttentionScorer)
    assert isinstance(build("alibi").comparison, AttentionScorer)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("positions", POSITIONS)
def test_every_parameter_gets_a_gradient(score: str, positions: str) -> None:
    module = build(positions, score=score)
    module(torch.randn(2, 5, D)).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_what_stands_between_tokens_of_one_sequence_is_refused_across_two() -> None:
    x = torch.randn(1, 3, D)
    for module in (build("rotary"), build("alibi"), build(window=1)):
        with pytest.raises(ValueError, match="relative positions and a window need one sequence"):
            module(x, x)


def test_unknown_choices_are_refused(unchecked_shapes: None) -> None:
    with pytest.raises(ValueError, match=r"score must be one of scaled_dot, dot, additive, bilinear, .*, not 'cosine'"):
        build(score="cosine")
    with pytest.raises(ValueError, match=r"selection must be one of .*, not 'top'"):
        build(selection="top")


def test_masks_that_do_not_fit_are_refused(unchecked_shapes: None) -> None:
    """Too long, too many axes, another batch, a number: on every path, with the shape of the scores."""
    x = torch.randn(2, 5, D)
    for score, form in (("scaled_dot", FORMS[0]), ("scaled_dot", FORMS[1]), ("additive", FORMS[0])):
        module = build(score=score)
        with taking(form):
            for shape in ((5, 6), (1, 1, 1, 5, 5), (3, 1, 5, 5), (2, 4, 5, 5)):
                message = r"mask must be broadcastable to the scores \(2, 2, 5, 5\), but has the shape"
                with pytest.raises(ValueError, match=message):
                    module(x, mask=torch.ones(shape, dtype=torch.bool))
            with pytest.raises(TypeError, match=r"mask must be boolean \(True = may attend\), not torch.float32"):
                module(x, mask=torch.zeros(5, 5))


def test_a_sequence_without_positions_is_refused() -> None:
    module, x = build(), torch.randn(1, 3, D)
    with pytest.raises(ValueError, match="query and key must have at least 1 position, but have 0 and 0"):
        module(x[:, :0])
    with pytest.raises(ValueError, match="at least 1 position, but have 3 and 0"):
        module(x, x[:, :0])
