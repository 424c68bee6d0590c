"""The language model: what each token sees, and that its cache changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dikkat.config import ModelConfig
from dikkat.data.packing import Example
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel, Objective
from dikkat.training.language_modelling import visible

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "relative_buckets")


def model_of(objective: Objective = "causal", **changes: Any) -> LanguageModel:
    config = ModelConfig.model_validate(
        {
            "vocab_size": 30, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 32, "decoder_layers": 2,
            "max_positions": 16, "dropout": 0.0, **changes,
        }
    )  # fmt: skip
    return build_language_model(config, objective, seed=1).eval()


def tokens_of(*shape: int) -> torch.Tensor:
    return torch.randint(4, 30, shape)


@pytest.mark.parametrize("positions", POSITIONS)
def test_documents_in_one_window_do_not_meet(positions: str) -> None:
    """Another first document changes nothing in the second, and a document reads as it does alone."""
    model = model_of(positions=positions)
    tokens = tokens_of(2, 12)
    documents = torch.tensor([[0] * 5 + [1] * 7, [3] * 8 + [4] * 4])
    example = Example(tokens.numpy(), tokens.numpy(), None, documents.numpy())
    mask = visible(example, model)
    assert example.position_ids is not None
    indices = torch.from_numpy(example.position_ids)
    logits = model(tokens, mask, indices)
    changed = tokens.clone()
    changed[0, :5], changed[1, :8] = tokens_of(5), tokens_of(8)
    other = model(changed, mask, indices)
    assert (logits[0, 5:] == other[0, 5:]).all()
    assert (logits[1, 8:] == other[1, 8:]).all()
    assert (logits[0, :5] - other[0, :5]).abs().max() > 0.1
    torch.testing.assert_close(logits[0, 5:], model(tokens[:1, 5:])[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_token_sees_the_future(positions: str) -> None:
    model = model_of(positions=positions)
    tokens = tokens_of(2, 10)
    changed = tokens.clone()
    changed[:, 6:] = tokens_of(2, 4)
    for mode in (model.eval(), model.train()):
        assert (mode(tokens)[:, :6] - mode(changed)[:, :6]).abs().max() < 1e-6
    assert (model(tokens)[:, 6:] - model(changed)[:, 6:]).abs().max() > 0.1


@pytest.mark.seed("E21")
def test_a_masked_model_sees_all_and_a_prefix_model_all_of_its_prefix() -> None:
    tokens = tokens_of(1, 8)
    changed = tokens.clone()
    changed[0, 4] = (tokens[0, 4] - 4 + 1) % 26 + 4
    masked = model_of("masked")
    assert (masked(tokens)[:, 0] - masked(changed)[:, 0]).abs().max() > 1e-4
    prefix = model_of("prefix")
    for length, sees in ((5, True), (4, False)):
        example = Example(tokens.numpy(), tokens.numpy(), None, None, torch.tensor([length]).numpy())
        mask = visible(example, prefix)
        shifted = (prefix(tokens, mask)[:, 0] - prefix(changed, mask)[:, 0]).abs().max()
        assert (shifted > 1e-4) == sees


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("objective", ["causal", "prefix"])
def test_reading_in_pieces_is_reading_at_once(positions: str, objective: Objective) -> None:
    model = model_of(objective, positions=positions)
    tokens = tokens_of(3, 12)
    example = Example(tokens.numpy(), tokens.numpy(), None, None, torch.full((3,), 5).numpy())
    logits = model(tokens, visible(example, model) if objective == "prefix" else None)
    cache = model.start_cache()
    result = [model.read(tokens[:, :5], cache), *(model.step(tokens[:, index], cache) for index in range(5, 12))]
    torch.testing.assert_close(torch.stack(result, dim=1), logits[:, 4:], atol=1e-5, rtol=0)
    assert cache.length == 12
    if objective == "causal":
        cache = model.start_cache()
        model.read(tokens[:, :4], cache)
        torch.testing.assert_close(model.read(tokens[:, 4:9], cache), logits[:, 8], atol=1e-5, rtol=0)


def test_a_cache_keeps_the_rows_that_it_is_told_to() -> None:
    model = model_of()
    tokens = tokens_of(3, 6)
    cache = model.start_cache()
    model.read(tokens[:, :5], cache)
    cache.reorder(torch.tensor([2, 0]))
    result = model.step(tokens[[2, 0], 5], cache)
    torch.testing.assert_close(result, model(tokens)[[2, 0], -1], atol=1e-5, rtol=0)


def test_the_parameters_of_nanogpts_recipe_are_counted() -> None:
    """4 layers, D=128, F=512, V=65, T=64: 12 D^2 a layer, biases and norms, one tied matrix, learned positions."""
    model = model_of(
        vocab_size=65, model_dim=128, num_heads=4, feed_forward_dim=512, decoder_layers=4, positions="learned",
        max_positions=64,
    )  # fmt: skip
    matrices, vectors = 4 * 12 * 128**2, 4 * (3 * 128 + 128 + 512 + 128 + 4 * 128) + 2 * 128
    assert sum(item.numel() for item in model.parameters()) == matrices + vectors + (65 + 64) * 128
