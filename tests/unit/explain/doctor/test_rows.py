"""Rows that may look nowhere, and rows that do not sum to one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.unit.explain.doctor.patients import diagnosis, violation
from tests.unit.models.small import small_model
from torch import Tensor

from dikkat.kernels import attention, query_blocks
from dikkat.kernels import attention as attention_calls
from dikkat.kernels.library import library, why_absent
from dikkat.nn import functional


@pytest.mark.seed("F38")
@pytest.mark.usefixtures("without_kernels")
def test_a_fully_masked_row_that_looks_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def uniform(scores: Tensor, mask: Tensor | None, beta: float, bias: Tensor | None) -> Tensor:
        hidden = scores if mask is None else scores.masked_fill(~mask, -1e6)
        return torch.softmax(hidden * beta, dim=-1)

    monkeypatch.setattr(attention, "attention_weights", uniform)
    assert diagnosis(small_model()) == ({"fully masked rows"}, set())
    assert violation(small_model(), "fully masked rows").where.endswith("5 tokens")


@pytest.mark.seed("F19")
def test_zeros_out_but_gradients_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minus infinity added gives NaN; zeros put in its place afterwards do not save the gradient that autograd takes.

    The backward pass of our own starts from the zeros, so the fault needs attention as it is usually written.
    """

    def patched(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, beta: float, **_: object) -> tuple[Tensor, None]:
        scores = q @ k.transpose(-2, -1) * beta
        if mask is None:
            return torch.softmax(scores, dim=-1) @ v, None
        hidden = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -math.inf)
        return torch.softmax(scores + hidden, dim=-1).masked_fill(~mask, 0.0) @ v, None

    monkeypatch.setattr(functional, "soft_attention", patched)
    assert diagnosis(small_model()) == ({"fully masked rows"}, set())
    assert violation(small_model(), "fully masked rows").violation == math.inf


@pytest.mark.usefixtures("without_kernels")
def test_a_fault_of_long_sequences_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = query_blocks.in_query_blocks
    monkeypatch.setattr(attention, "in_query_blocks", lambda *inputs, **options: whole(*inputs, **options) + torch.nan)
    result = violation(small_model(), "fully masked rows")
    assert (result.outcome, result.violation) == ("fail", math.inf)
    assert result.where.endswith("513 tokens")


def test_a_row_of_zeros_that_may_look_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of padding may be zero within a window, those of real tokens not.

    With a position bias the weights are recorded by the reference, which alone is at fault here.
    """
    forward = functional.attention_weights
    model = small_model(attention_window=1, positions="alibi")
    assert violation(model, "weights sum to one").passed

    def emptied(scores: Tensor, mask: Tensor | None = None, **how: Any) -> Tensor:
        weights = forward(scores, mask, **how).clone()
        weights[:, :, 0] = 0.0
        return weights

    monkeypatch.setattr("dikkat.nn.scorers.attention_weights", emptied)
    result = violation(model, "weights sum to one")
    assert (result.outcome, result.violation) == ("fail", 1.0)
    assert result.where.endswith("recorded")


@pytest.mark.usefixtures("without_kernels")
def test_rows_that_do_not_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda scores, dim: softmax(scores, dim) * 1.001)
    result = violation(small_model(), "weights sum to one")
    assert result.outcome == "fail"
    assert result.violation == pytest.approx(1e-3, rel=1e-2)
    assert diagnosis(small_model()) == ({"weights sum to one"}, set())


@pytest.mark.usefixtures("without_kernels")
def test_rows_that_only_the_fast_path_leaves_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is what was used."""
    weights = attention.attention_weights
    monkeypatch.setattr(attention, "attention_weights", lambda *inputs: weights(*inputs) * 1.001)
    result = violation(small_model(), "weights sum to one")
    assert result.outcome == "fail"
    assert result.violation == pytest.approx(1e-3, rel=1e-2)
    assert result.where.endswith("recorded")
    assert diagnosis(small_model()) == ({"weights sum to one"}, set())


def test_rows_that_only_the_native_kernel_leaves_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    if library() is None:
        pytest.skip(f"no native kernels: {why_absent()}")
    forward = attention_calls.attention_forward

    def uneven(*given: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = forward(*given, **options)
        return output * 1.001, weights

    monkeypatch.setattr(attention_calls, "attention_forward", uneven)
    assert violation(small_model(), "weights sum to one").where.endswith("used")
    assert diagnosis(small_model()) == ({"weights sum to one"}, set())
