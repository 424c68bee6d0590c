"""The classifier: padding, pooling, both objectives, and the size of the seed's preset."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ClassifierConfig, ModelConfig, build_config, preset
from dikkat.config.model import PositionName
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import build_classifier
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.pooling import PoolingName

POOLINGS = get_args(PoolingName)
SMALL = {"vocab_size": 50, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 32, "encoder_layers": 2}


def small(num_classes: int = 3, settings: dict[str, Any] | None = None, **around: Any) -> EncoderClassifier:
    """A classifier whose every parameter is random, so that nothing is zero by its start."""
    config = ModelConfig(**{**SMALL, **(settings or {})})
    model = build_classifier(config, ClassifierConfig(**around), num_classes, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def texts(*lengths: int) -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.where(mask, torch.randint(1, 50, mask.shape), 0), mask


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
@torch.inference_mode()
def test_padding_and_neighbours_change_nothing(
    pooling: PoolingName, kernels: bool, request: pytest.FixtureRequest
) -> None:
    if not kernels:
        request.getfixturevalue("without_kernels")
    model = small(pooling=pooling)
    tokens, mask = texts(9, 4, 1)
    together = model(tokens, mask)
    padded = model(F.pad(tokens, (0, 7)), F.pad(mask, (0, 7)))
    hidden = model(torch.where(mask, tokens, 7), mask)
    assert float((padded - together).abs().max()) <= 1e-6
    assert float((hidden - together).abs().max()) <= 1e-6
    for row, length in enumerate((9, 4, 1)):
        alone = model(tokens[row, None, :length], mask[row, None, :length])
        assert float((alone[0] - together[row]).abs().max()) <= 1e-6


@pytest.mark.seed("F5")
def test_two_calls_are_equal_and_all_parts_are_saved() -> None:
    model = small()
    tokens, mask = texts(5, 3)
    assert torch.equal(model(tokens, mask), model(tokens, mask))
    assert {name.partition(".")[0] for name in model.state_dict()} == {"embedding", "encoder", "output"}


def test_a_binary_classifier_has_one_logit_and_binary_cross_entropy() -> None:
    model = small(num_classes=2, objective="binary")
    tokens, mask = texts(5, 3)
    logits, wanted = model(tokens, mask), torch.tensor([1, 0])
    assert model.output.weight.shape == (1, 16)
    assert not logits[:, 0].any()
    reference = F.binary_cross_entropy_with_logits(logits[:, 1], wanted.float())
    torch.testing.assert_close(F.cross_entropy(logits, wanted), reference)


def test_word_dropout_hides_tokens_in_training_alone() -> None:
    model = small(word_dropout=0.5)
    model.dropout.probability = 0.0
    tokens, mask = texts(40)
    quiet = model(tokens, mask)
    model.train()
    kept = model._hide_words(mask.expand(2000, -1))
    share = float(kept[:, 1:].float().mean())
    # 78,000 draws: four standard deviations are 0.007
    assert abs(share - 0.5) < 0.007
    assert bool(kept[:, 0].all())
    assert not torch.equal(model(tokens, mask), quiet)
    assert torch.equal(model.eval()(tokens, mask), quiet)


@pytest.mark.parametrize("positions", get_args(PositionName))
@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_hidden_is_left_out_where_the_result_is_the_same(
    positions: PositionName, pooling: PoolingName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits and gradients of short sequences are those of whole ones under a mask."""
    model = small(settings={"positions": positions, "dropout": 0.0}, pooling=pooling, word_dropout=0.5).train()
    tokens, mask = texts(30, 11, 2)
    read: list[int] = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].shape[1]))
    result = []
    for may in (True, False):
        if not may:
            monkeypatch.setattr(model, "_can_leave_out", lambda: False)
        torch.manual_seed(4)
        logits = model(tokens, mask)
        gradients = torch.autograd.grad(logits.square().sum(), list(model.parameters()), allow_unused=True)
        result.append([logits, *(item for item in gradients if item is not None)])
    assert read[1] == 30
    assert (read[0] < 30) == (positions not in ("alibi", "relative", "relative_buckets"))
    for short, whole in zip(*result, strict=True):
        torch.testing.assert_close(short, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", ["learned", "alibi"])
def test_a_longer_text_is_seen_in_runs_that_are_drawn(positions: str) -> None:
    model = small(settings={"positions": positions, "dropout": 0.0, "max_positions": 128}, seen_tokens=40)
    tokens, mask = texts(100, 33, 7)
    read: list[int] = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].shape[1]))
    quiet = model(tokens, mask)
    model.train()
    assert not torch.equal(model(tokens, mask)[0], quiet[0])
    kept = model._hide_words(mask[:1].expand(3_000, -1))
    # the first token and two of six whole runs, or one of them and the four tokens at the end
    runs = torch.stack([part.float().mean(dim=1) for part in kept[:, 1:].split([15, *[16] * 5, 4], dim=1)], dim=1)
    assert set(runs.unique().tolist()) == {0.0, 1.0}
    assert bool((runs.sum(dim=1) == 2).all())
    assert bool(kept[:, 0].all())
    # each run in two of seven draws; four standard deviations are 0.033
    assert float((runs.mean(dim=0) - 2 / 7).abs().max()) < 0.033
    short = model._hide_words(mask)
    assert int(short[1].sum()) in (16 + 16, 17 + 1, 16 + 1), "two of its three runs, and the first token"
    assert int(short[2].sum()) == 7
    assert read[0] == 100
    assert read[1] == 100 if positions == "alibi" else 17 <= read[1] <= 33


def test_places_are_refused_where_distances_count() -> None:
    x, indices = torch.randn(1, 3, 16), torch.tensor([[0, 2, 5]])
    for settings in ({"positions": "alibi"}, {"attention_window": 2}):
        encoder = small(settings=settings).encoder
        with pytest.raises(ValueError, match="pass no position_ids"):
            encoder(x, position_ids=indices)
    with pytest.raises(ValueError, match="pass no key"):
        MultiHeadAttention(16, 2)(x, x, position_ids=indices)


@pytest.mark.seed("A28")
def test_the_seed_preset_has_its_1612802_parameters() -> None:
    settings = preset("imdb_seed")
    assert settings["tokenizer"]["vocab_size"] == 50_002
    config = build_config({**settings, "model": {**settings["model"], "vocab_size": 50_002}})
    model = build_classifier(config.model, config.classifier, num_classes=2, seed=1)
    assert sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad) == 1_612_802
    assert config.classifier.max_tokens == 200


@torch.inference_mode()
def test_the_first_token_sees_the_last_one() -> None:
    """An encoder reads both ways: pooled by its first position alone, a text with another end has other logits."""
    model = small(pooling="first")
    tokens, mask = texts(8)
    changed = tokens.clone()
    changed[0, -1] = tokens[0, -1] % 49 + 1
    assert float((model(tokens, mask) - model(changed, mask)).abs().max()) > 1e-4
    states = model.encode(tokens, mask) - model.encode(changed, mask)
    assert (states.abs().amax(dim=-1) > 0).all(), "every position sees every other"
