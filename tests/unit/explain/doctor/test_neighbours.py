"""Padding and batch are told apart."""

from __future__ import annotations

import sys

import pytest
import torch
from tests.unit.explain.doctor.patients import diagnosis, violation
from tests.unit.models.small import small_model

from dikkat.nn.masks import key_mask


@pytest.mark.seed("F6")
@pytest.mark.parametrize(
    ("places", "follows"),
    [
        # forgotten for teacher forcing alone, the steps do better than what they are compared with
        (("encode", "decode", "read_source"), set()),
        (("encode", "decode"), {"step = teacher forcing"}),
    ],
)
def test_no_padding_mask(places: tuple[str, ...], follows: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(real: torch.Tensor) -> torch.Tensor:
        is_forgotten = sys._getframe(1).f_code.co_name in places
        return torch.ones_like(real)[:, None, None] if is_forgotten else key_mask(real)

    monkeypatch.setattr("dikkat.models.encoder_decoder.key_mask", forgotten)
    assert diagnosis(small_model()) == ({"padding changes nothing"}, follows)


@pytest.mark.usefixtures("without_kernels")
def test_a_mask_that_lets_a_little_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A score lowered by 10 instead of hidden leaves five parts in 100,000: less than the eye sees, more than zero."""

    def leaky(scores: torch.Tensor, mask: torch.Tensor | None, beta: float, bias: torch.Tensor | None) -> torch.Tensor:
        lowered = scores if mask is None else scores - 10.0 * (~mask).to(scores.dtype)
        return torch.softmax(lowered * beta, dim=-1)

    monkeypatch.setattr("dikkat.kernels.attention.attention_weights", leaky)
    assert violation(small_model(), "padding changes nothing").outcome == "fail"


def test_a_norm_over_the_batch() -> None:
    model = small_model()
    model.encoder.register_forward_hook(lambda module, inputs, output: output - output.mean(dim=0, keepdim=True))
    assert "batch changes nothing" in diagnosis(model)[0]
    assert violation(model, "no future in evaluation").passed
