"""Gradient x input against finite differences in float64, occlusion against a model run by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.explain.honesty.saliency import gradient_times_input, occlusion
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model

SOURCE, TARGET = torch.tensor([5, 9, 7, 2]), torch.tensor([1, 8, 6, 2])


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_of(**choices: Any) -> EncoderDecoder:
    config = ModelConfig(
        vocab_size=12, model_dim=8, num_heads=2, feed_forward_dim=12, encoder_layers=2, decoder_layers=1, **choices
    )
    return build_model(config, seed=3).double().eval()


def log_probability(model: EncoderDecoder, x: Tensor, y: Tensor, row: int) -> float:
    read, fed = (model.embedding_norm(model.positions(each[None])) for each in (x, y))
    logits = model.project(model.decoder(fed, model.encoder(read)))[0, row]
    return float(logits.log_softmax(-1)[TARGET[row + 1]])


@pytest.mark.parametrize("choices", [{}, {"norm_placement": "post", "positions": "rotary"}, {"embedding_norm": True}])
@torch.no_grad()
def test_gradient_times_input_is_the_derivative_by_a_factor(choices: dict[str, Any]) -> None:
    model, step = model_of(**choices), 1e-6
    found = gradient_times_input(model, SOURCE, TARGET)
    x, y = model.source_embedding(SOURCE), model.target_embedding(TARGET[:-1])
    for row in range(3):
        for sides, values in ((0, found.source), (1, found.target)):
            for place in range(values.shape[1]):
                ends = []
                for factor in (1 + step, 1 - step):
                    both = [x.clone(), y.clone()]
                    both[sides][place] *= factor
                    ends.append(log_probability(model, both[0], both[1], row))
                assert values[row, place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)
    assert np.abs(found.source).max() > 1e-3
    assert np.triu(found.target, 1).max() == 0.0


@torch.no_grad()
def test_occlusion_is_what_is_lost_when_a_token_is_hidden() -> None:
    model = model_of()
    found = occlusion(model, SOURCE, TARGET)
    assert found.shape == (3, 4)
    seen = torch.ones(1, 4, dtype=torch.bool)
    for place in range(4):
        hidden = seen.clone()
        hidden[0, place] = False
        before, after = (
            model(SOURCE[None], TARGET[None, :-1], mask)[0].log_softmax(-1)[range(3), TARGET[1:]]
            for mask in (seen, hidden)
        )
        np.testing.assert_allclose(found[:, place], (before - after).numpy(), atol=1e-12)
    assert np.abs(found).max() > 1e-3
