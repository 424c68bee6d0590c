"""Gradient x input against finite differences in float64, occlusion against a source without the token."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.unit.models.small import small_model, some_tokens
from torch import Tensor, nn

from dikkat.explain.head_analysis import importance as saliency
from dikkat.explain.head_analysis.importance import gradient_times_input, occlusion
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID

SOURCE = torch.tensor([7, 12, 7, 20, 5, EOS_ID])
TARGET = torch.tensor([BOS_ID, 9, 15, 9, 4, EOS_ID])
CHOICES = [
    {}, {"norm_placement": "post"}, {"positions": "relative", "score": "additive"}, {"attention_window": 1},
    {"embedding_norm": True},
]  # fmt: skip


def log_probabilities(model: EncoderDecoder, source: Tensor, mask: Tensor) -> Tensor:
    """(T,), one by one."""
    rows = model(source[None], TARGET[None, :-1], mask[None])[0].log_softmax(-1)
    return torch.stack([row[token] for row, token in zip(rows, TARGET[1:], strict=True)])


def scaled(factors: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    """A hook that multiplies the embedding of each token by its factor."""
    return lambda _, inputs, output: output * factors[:, None]


def by_differences(model: EncoderDecoder, embedding: nn.Module, length: int) -> Tensor:
    """(T, length): derivative of each log-probability by a factor on each embedding, to second order in the step."""
    columns, step = [], 1e-4
    for index in range(length):
        result = []
        for sign in (1.0, -1.0):
            factors = torch.ones(length, dtype=torch.float64)
            factors[index] += sign * step
            handle = embedding.register_forward_hook(scaled(factors))
            with torch.no_grad():
                result.append(log_probabilities(model, SOURCE, torch.ones(len(SOURCE), dtype=torch.bool)))
            handle.remove()
        columns.append((result[0] - result[1]) / (2 * step))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_gradient_times_input_is_a_derivative(choices: dict[str, object]) -> None:
    model = small_model(tie_embeddings=False, **choices).double()
    result = gradient_times_input(model, SOURCE, TARGET)
    for ours, embedding, length in (
        (result.source, model.source_embedding, 6),
        (result.target, model.target_embedding, 5),
    ):
        wanted = by_differences(model, embedding, length).numpy()
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-7)
        assert np.abs(wanted).max() > 0.1
    assert not np.triu(result.target, 1).any()


def test_embeddings_that_are_one_matrix_are_still_two_inputs() -> None:
    """Equal weights, tied or not, so equal numbers."""
    tied, separate = small_model(), small_model(tie_embeddings=False)
    separate.load_state_dict(tied.state_dict())
    ours, theirs = (gradient_times_input(model, SOURCE, TARGET) for model in (tied, separate))
    np.testing.assert_allclose(ours.source, theirs.source, atol=1e-6)
    np.testing.assert_allclose(ours.target, theirs.target, atol=1e-6)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_hidden_token_is_seen_by_nobody(choices: dict[str, object]) -> None:
    model = small_model(**choices).double()
    whole = log_probabilities(model, SOURCE, torch.ones(6, dtype=torch.bool))
    result = occlusion(model, SOURCE, TARGET)
    assert result.shape == (5, 6)
    # the last one leaves no gap, so that hiding it is the same as not having it
    without_last = log_probabilities(model, SOURCE[:-1], torch.ones(5, dtype=torch.bool))
    np.testing.assert_allclose(result[:, 5], (whole - without_last).detach().numpy(), atol=1e-10)
    # what a hidden token is makes no difference
    mask = torch.arange(6) != 2
    other = SOURCE.clone()
    other[2] = 21
    np.testing.assert_allclose(
        result[:, 2], (whole - log_probabilities(model, other, mask)).detach().numpy(), atol=1e-10
    )
    assert np.abs(result).min(axis=0).max() > 1e-4


def test_batches_of_copies_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model().double()
    whole = gradient_times_input(model, SOURCE, TARGET), occlusion(model, SOURCE, TARGET)
    monkeypatch.setattr(saliency, "MAX_ENTRIES", 2 * 6 * 16)
    parts = gradient_times_input(model, SOURCE, TARGET), occlusion(model, SOURCE, TARGET)
    np.testing.assert_allclose(parts[0].source, whole[0].source, atol=1e-12)
    np.testing.assert_allclose(parts[0].target, whole[0].target, atol=1e-12)
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-12)


def test_no_gradient_is_left_on_the_weights() -> None:
    model = small_model()
    gradient_times_input(model, some_tokens(4), TARGET)
    assert all(parameter.grad is None for parameter in model.parameters())
