"""The reference and the fused attention against the formula, and against each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.nn.forms import FORMS, Form, taking
from tests.unit.nn.reference import numpy_attention, softmax_over_allowed, to_numpy
from torch import Tensor

from dikkat.kernels.attention import takes_matmul
from dikkat.nn.functional import (
    attention,
    attention_scores,
    attention_weights,
    fused_attention,
)

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


MASK_SHAPES = ["none", "all", "keys", "batch", "rows"]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any sizes and masks; about every fourth row may attend to nothing."""
    batch, heads, targets, sources = (draw(st.integers(1, high)) for high in (3, 4, 6, 7))
    width, value_width = draw(st.sampled_from([1, 3, 8, 16])), draw(st.sampled_from([1, 4, 5]))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    query = torch.randn(batch, heads, targets, width, generator=random).to(dtype)
    key = torch.randn(batch, heads, sources, width, generator=random).to(dtype)
    value = (2 * torch.rand(batch, heads, sources, value_width, generator=random) - 1).to(dtype)
    shape = {
        "all": (batch, heads, targets, sources),
        "keys": (batch, 1, 1, sources),
        "batch": (batch, 1, targets, sources),
        "rows": (targets, sources),
    }.get(draw(st.sampled_from(MASK_SHAPES)))
    if shape is None:
        return Case(query, key, value, None)
    mask = torch.rand(shape, generator=random) < draw(st.sampled_from([0.2, 0.6, 1.0]))
    barred = torch.rand(shape[:-1], generator=random) < 0.25
    mask = mask & ~barred[..., None]
    # where a row could be that of a text as well, the mask says which by its leading dimensions
    return Case(query, key, value, mask[None] if mask.dim() < 4 and mask.shape[0] == batch else mask)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_reference_is_the_formula(case: Case) -> None:
    output, weights = attention(case.query, case.key, case.value, case.mask)
    expected_output, expected_weights = numpy_attention(case.query, case.key, case.value, case.mask)
    tolerance = TOLERANCE[case.query.dtype]
    np.testing.assert_allclose(to_numpy(output), expected_output, rtol=0, atol=tolerance)
    np.testing.assert_allclose(to_numpy(weights), expected_weights, rtol=0, atol=tolerance)
    assert output.dtype == case.query.dtype


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_fused_is_the_formula_and_the_reference(form: Form, case: Case) -> None:
    with taking(form):
        output = fused_attention(case.query, case.key, case.value, case.mask)
    reference, _ = attention(case.query, case.key, case.value, case.mask)
    expected, _ = numpy_attention(case.query, case.key, case.value, case.mask)
    tolerance = TOLERANCE[case.query.dtype]
    np.testing.assert_allclose(to_numpy(output), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(to_numpy(output), to_numpy(reference), rtol=0, atol=tolerance)
    assert output.dtype == case.query.dtype


@pytest.mark.parametrize("path", ["reference", "kernel", "products"])
@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_gradients_are_finite_and_those_of_the_formula(path: str, case: Case) -> None:
    """Compared with the reference in float64, whose own gradients `gradcheck` compares with finite differences."""
    inputs = [x.clone().requires_grad_() for x in (case.query, case.key, case.value)]
    exact = [x.double().requires_grad_() for x in (case.query, case.key, case.value)]
    (attention(exact[0], exact[1], exact[2], case.mask)[0].sin().sum()).backward()
    with taking("kernel" if path == "kernel" else "products"):
        if path == "reference":
            output, _ = attention(inputs[0], inputs[1], inputs[2], case.mask)
        else:
            output = fused_attention(inputs[0], inputs[1], inputs[2], case.mask)
        output.sin().sum().backward()
    for ours, reference in zip(inputs, exact, strict=True):
        assert ours.grad is not None
        assert reference.grad is not None
        assert torch.isfinite(ours.grad).all()
        # a bfloat16 gradient is a sum over heads of rounded addends: its error grows with the largest of them
        scale = 1.0 if ours.dtype == torch.float32 else max(1.0, reference.grad.abs().max().item())
        bound = {torch.float32: 1e-5, torch.bfloat16: 4e-2}[ours.dtype] * scale
        assert (ours.grad.double() - reference.grad).abs().max() <= bound


@pytest.mark.parametrize("path", ["reference", "kernel", "products"])
def test_gradients_against_finite_differences(path: str) -> None:
    query, key, value = (torch.randn(2, 2, size, 3, dtype=torch.float64, requires_grad=True) for size in (3, 4, 4))
    mask = torch.rand(2, 2, 3, 4) < 0.6
    mask[0, :, 1] = False

    def compute(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, mask)[0] if path == "reference" else fused_attention(q, k, v, mask)

    with taking("kernel" if path == "kernel" else "products"):
        assert torch.autograd.gradcheck(compute, (query, key, value))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_that_may_attend_to_nothing_is_zero(form: Form, dtype: torch.dtype) -> None:
    query, key, value = (torch.randn(2, 2, 5, 4).to(dtype).requires_grad_() for _ in range(3))
    mask = torch.zeros(2, 1, 5, 5, dtype=torch.bool)
    mask[1, :, 2:] = True
    with taking(form):
        output = fused_attention(query, key, value, mask)
    reference, weights = attention(query, key, value, mask)
    for result in (output, reference, weights):
        assert (result[0] == 0).all()
        assert (result[1, :, :2] == 0).all()
        assert (result[1, :, 2:].abs().amax(-1) > 0).all()
    (output.sum() + reference.sum()).backward()
    for x in (query, key, value):
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()
    assert query.grad is not None
    assert (query.grad[0] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_huge_scores_do_not_overflow(form: Form) -> None:
    query = torch.full((1, 1, 2, 4), 1e4)
    key = torch.stack((torch.full((4,), 1e4), torch.full((4,), -1e4), torch.zeros(4)))[None, None]
    value = torch.tensor([1.0, 2.0, 3.0])[None, None, :, None]
    mask = torch.tensor([[True, True, True], [False, True, True]])
    with taking(form):
        output = fused_attention(query, key, value, mask)
    torch.testing.assert_close(output[0, 0, :, 0], torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(attention(query, key, value, mask)[0], output)


def test_pytorchs_kernel_is_for_long_sequences_in_half_precision_alone() -> None:
    """In full precision the two round otherwise, and padding would tell."""
    long = torch.randn(1, 2, 150, 8)
    for dtype, dropout, expected in (
        (torch.float32, 0.0, True),
        (torch.float64, 0.0, True),
        (torch.float16, 0.0, False),
        (torch.bfloat16, 0.0, False),
        (torch.bfloat16, 0.1, True),
    ):
        x = long.to(dtype)
        assert takes_matmul(x, x, dropout) == expected
        assert takes_matmul(x[:, :, :7], x[:, :, :7], dropout)
    x = long.to("meta")
    assert not takes_matmul(x, x, 0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pytorchs_kernel_agrees_on_long_sequences(dtype: torch.dtype) -> None:
    query, key, value = (torch.randn(1, 2, 520, 8).to(dtype) for _ in range(3))
    mask = torch.ones(520, 520, dtype=torch.bool).tril()
    with taking("kernel"):
        output = fused_attention(query, key, value, mask)
    expected = numpy_attention(query, key, value, mask)[0]
    np.testing.assert_allclose(to_numpy(output), expected, rtol=0, atol={torch.float32: 1e-5}.get(dtype, 4e-2))


@pytest.mark.parametrize("form", FORMS)
def test_beta_is_the_inverse_temperature(form: Form) -> None:
    query, key, value = (torch.randn(1, 2, 4, 16) for _ in range(3))
    for beta in (0.0, 0.125, 2.0):
        expected, expected_weights = numpy_attention(query, key, value, beta=beta)
        output, weights = attention(query, key, value, beta=beta)
        with taking(form):
            fused = fused_attention(query, key, value, beta=beta)
        np.testing.assert_allclose(to_numpy(output), expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(to_numpy(fused), expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(to_numpy(weights), expected_weights, rtol=0, atol=1e-5)


@pytest.mark.seed("A6")
@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (0.0, [1 / 3, 1 / 3, 1 / 3]),
        (1.0, [0.2291, 0.4063, 0.3646]),
        (10.0, [0.0024, 0.7451, 0.2525]),
        (100.0, [0.0, 1.0, 0.0]),
    ],
)
def test_the_shiny_scores_at_four_temperatures(beta: float, expected: list[float]) -> None:
    weights = attention_weights(torch.tensor([[0.7842, 1.3569, 1.2487]]), beta=beta)
    torch.testing.assert_close(weights, torch.tensor([expected]), rtol=0, atol=5e-5)


@pytest.mark.seed("A1")
def test_self_and_cross_soft_and_hard_are_one_function() -> None:
    x, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    for other in (x, memory):
        for hard in (False, True):
            output, weights = attention(x, other, other, hard=hard)
            assert output.shape == (2, 3, 4)
            assert weights.shape == (2, 3, other.shape[1])
            torch.testing.assert_close(output, weights @ other)
            assert (weights.max(-1).values == 1).all() == hard


@pytest.mark.seed("A2")
def test_attention_alone_maps_sets() -> None:
    x, order = torch.randn(7, 8), torch.randperm(7)
    torch.testing.assert_close(attention(x[order], x[order], x[order])[0], attention(x, x, x)[0][order])


@pytest.mark.seed("A4")
@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.lists(st.integers(-2, 2), min_size=5, max_size=5), min_size=1, max_size=6),
    allowed=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_hard_attention_takes_the_lowest_index_of_the_highest_score(
    scores: list[list[int]], allowed: list[bool]
) -> None:
    weights = attention_weights(torch.tensor(scores, dtype=torch.float32), torch.tensor(allowed), hard=True)
    for row, given_scores in zip(weights.tolist(), scores, strict=True):
        candidates = [index for index in range(5) if allowed[index]]
        best = max(candidates, key=lambda index: given_scores[index]) if candidates else None
        assert row == [float(index == best) for index in range(5)]


@pytest.mark.seed("A4")
def test_hard_attention_returns_exactly_one_input() -> None:
    query, key, value = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)
    output, _ = attention(query, key, value, hard=True)
    winners = (to_numpy(query) @ to_numpy(key).T).argmax(-1)
    assert torch.equal(output, value[torch.from_numpy(winners)])


@pytest.mark.seed("A8")
def test_query_and_key_of_different_width_are_refused(unchecked_shapes: None) -> None:
    with pytest.raises(ValueError, match="query has 4 and key has 3"):
        attention(torch.randn(2, 4), torch.randn(2, 3), torch.randn(2, 3))


@pytest.mark.seed("A8")
def test_the_value_may_have_a_width_of_its_own() -> None:
    output, weights = attention(torch.randn(2, 4), torch.randn(3, 4), torch.randn(3, 7))
    assert output.shape == (2, 7)
    assert weights.shape == (2, 3)


def test_additive_score_is_bahdanau_and_unscaled() -> None:
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 4, 5), torch.randn(2, 4, 6)
    output, weights = attention(query, key, value, score="additive")
    scores = np.tanh(to_numpy(query)[:, :, None] + to_numpy(key)[:, None]).sum(-1)
    expected = softmax_over_allowed(scores, None)
    np.testing.assert_allclose(to_numpy(weights), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(to_numpy(output), expected @ to_numpy(value), rtol=0, atol=1e-5)


def test_a_callable_scores_unscaled_and_sees_float32() -> None:
    seen = []

    def minus_distance(query: Tensor, key: Tensor) -> Tensor:
        seen.append((query.dtype, key.dtype))
        return -torch.cdist(query, key)

    query, key = torch.randn(3, 5).bfloat16(), torch.randn(4, 5).bfloat16()
    _, weights = attention(query, key, key, score=minus_distance)
    distances = np.linalg.norm(to_numpy(query)[:, None] - to_numpy(key)[None], axis=-1)
    np.testing.assert_allclose(to_numpy(weights), softmax_over_allowed(-distances, None), rtol=0, atol=2e-2)
    assert seen == [(torch.float32, torch.float32)]


def test_an_unknown_score_is_refused(unchecked_shapes: None) -> None:
    with pytest.raises(ValueError, match='score must be "scaled_dot", "dot", "additive" or a callable, not \'cosine\''):
        attention_scores(torch.randn(2, 3), torch.randn(2, 3), "cosine")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_of_numbers_is_refused_on_every_path(form: Form, unchecked_shapes: None) -> None:
    x = torch.randn(1, 1, 2, 2)
    for mask in (torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.int64)):
        with taking(form), pytest.raises(TypeError, match="mask must be boolean"):
            fused_attention(x, x, x, mask)
        with pytest.raises(TypeError, match="mask must be boolean"):
            attention(x, x, x, mask)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softmax_statistics_are_float32(dtype: torch.dtype) -> None:
    """4,096 equal keys: a sum of weights kept in 8 or 11 bits would stall long before 1."""
    weights = attention_weights(torch.zeros(1, 4096, dtype=dtype))
    assert weights.dtype == torch.float32
    assert abs(weights.sum().item() - 1.0) < 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_dropout_drops_weights_and_keeps_their_mean(form: Form) -> None:
    """With the identity as value the output of either function is its weights."""
    size, probability = 50, 0.25
    query, key, value = torch.zeros(20, 2, 8, 4), torch.zeros(20, 2, size, 4), torch.eye(size).expand(20, 2, -1, -1)
    with taking(form):
        fused = fused_attention(query, key, value, dropout=probability)
    output, weights = attention(query, key, value, dropout=probability)
    assert torch.equal(output, weights)  # the weights returned are those used
    for dropped in (fused, output):
        kept = dropped > 0
        torch.testing.assert_close(dropped[kept], torch.full_like(dropped[kept], 1 / size / (1 - probability)))
        deviation = (probability * (1 - probability) / kept.numel()) ** 0.5
        assert abs((~kept).float().mean().item() - probability) < 5 * deviation


def test_dropout_outside_its_range_is_refused() -> None:
    x = torch.randn(1, 1, 2, 2)
    for probability in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\), not"):
            attention(x, x, x, dropout=probability)
