"""Weights to PyTorch and back: every one, under its own name, and a refusal wherever PyTorch computes otherwise."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from tests.parity.weights import shake
from torch import Tensor, nn

from dikkat.config import ModelConfig
from dikkat.models.factory import Factory
from dikkat.nn.blocks import DecoderBlock, EncoderBlock, PositionedDecoderBlock, PositionedEncoderBlock
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.positions import SinusoidalPositions
from dikkat.nn.rotary import RotaryPositions
from dikkat.nn.torch_weights import ATTENTION, DECODER_BLOCK, ENCODER_BLOCK, Ours, load_torch, to_torch


def pairs() -> list[tuple[Ours, nn.Module]]:
    """Ours and PyTorch's, of the same sizes, with different weights."""
    options: dict[str, Any] = {"dim_feedforward": 20, "dropout": 0.0, "batch_first": True}
    created: list[tuple[Ours, nn.Module]] = [
        (MultiHeadAttention(12, 3), nn.MultiheadAttention(12, 3, batch_first=True)),
        (MultiHeadAttention(12, 3, bias=False), nn.MultiheadAttention(12, 3, bias=False, batch_first=True)),
        (
            MultiHeadAttention(12, 3, key_dim=7, value_dim=5),
            nn.MultiheadAttention(12, 3, kdim=7, vdim=5, batch_first=True),
        ),
        (EncoderBlock(12, 3, 20), nn.TransformerEncoderLayer(12, 3, **options)),
        (DecoderBlock(12, 3, 20), nn.TransformerDecoderLayer(12, 3, **options)),
    ]
    for ours, theirs in created:
        shake(ours)
        shake(theirs)
    return created


every_pair = pytest.mark.parametrize("number", range(5), ids=["packed", "no bias", "widths", "encoder", "decoder"])


def run(module: nn.Module, number: int, x: Tensor) -> Tensor:
    theirs = not isinstance(module, Ours)
    if number < 3:
        key, value = (x, x) if number < 2 else (x[..., :7], x[..., :5])
        return module(x, key, value)[0] if theirs else module(x, key, value)
    return module(x) if number == 3 else module(x, x)


@pytest.mark.seed("B21")
@every_pair
def test_given_back_weights_compute_the_same(number: int) -> None:
    ours, theirs = pairs()[number]
    x = torch.randn(2, 5, 12)
    assert not torch.allclose(run(ours, number, x), run(theirs, number, x), atol=1e-3)
    theirs.load_state_dict(to_torch(ours))
    torch.testing.assert_close(run(theirs, number, x), run(ours, number, x), rtol=0, atol=1e-5)


@every_pair
def test_there_and_back_changes_nothing(number: int) -> None:
    ours, theirs = pairs()[number]
    weights = theirs.state_dict()
    load_torch(ours, weights)
    again = to_torch(ours)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    again[next(iter(again))].zero_()
    assert to_torch(ours)[next(iter(again))].abs().max() > 0, "what is given back is a copy"


@every_pair
def test_every_weight_of_ours_is_in_the_table(number: int) -> None:
    ours, _ = pairs()[number]
    table = {3: ENCODER_BLOCK, 4: DECODER_BLOCK}.get(number, ATTENTION)
    assert set(ours.state_dict()) <= {name for _, names in table for name in names}


@every_pair
def test_a_weight_missing_left_over_or_of_another_shape_is_named_and_nothing_copied(number: int) -> None:
    ours, theirs = pairs()[number]
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    weights = theirs.state_dict()
    last = list(weights)[-1]
    cases = [
        ({name: tensor for name, tensor in weights.items() if name != last}, f"weight {last} is missing"),
        ({**weights, "extra": torch.zeros(1)}, f"weight extra has no place in this {type(ours).__name__}"),
        ({**weights, last: torch.zeros(3)}, rf"weight {last} must have the shape \(12,.*\), not \(3,\)"),
    ]
    for changed, message in cases:
        with pytest.raises(ValueError, match=message):
            load_torch(ours, changed)
    assert all(torch.equal(ours.state_dict()[name], tensor) for name, tensor in before.items())


def test_what_pytorch_cannot_compute_is_refused_both_ways() -> None:
    cases: list[tuple[Ours, str]] = [
        (MultiHeadAttention(12, 4, num_kv_heads=2), "num_kv_heads must be 4, not 2"),
        (MultiHeadAttention(12, 4, head_dim=5), "num_heads x head_dim must be 12, not 20"),
        (MultiHeadAttention(12, 4, query_dim=7), "query_dim must be 12, not 7"),
        (MultiHeadAttention(12, 4, score="dot"), "scaled dot score alone"),
        (MultiHeadAttention(12, 4, score="additive"), "scaled dot score alone"),
        (MultiHeadAttention(12, 4, beta=0.5), "scaled dot score alone"),
        (MultiHeadAttention(12, 3, positions=RotaryPositions(4)), "scaled dot score alone"),
        (MultiHeadAttention(12, 3, window=1), "scaled dot score alone"),
        (EncoderBlock(12, 3, 20, activation="swiglu"), "no gated feed-forward, but activation is swiglu"),
        (DecoderBlock(12, 3, 20, norm="rms"), 'layer norm only, but norm is "rms"'),
        (EncoderBlock(12, 3, 20, positions="alibi"), "scaled dot score alone"),
        (PositionedEncoderBlock(SinusoidalPositions(12), 12, 3, 20), "add no positions to their input"),
        (PositionedDecoderBlock(SinusoidalPositions(12), 12, 3, 20), "add no positions to their input"),
    ]
    for module, message in cases:
        with pytest.raises(ValueError, match=message):
            to_torch(module)
        with pytest.raises(ValueError, match=message):
            load_torch(module, {})


@pytest.mark.parametrize(
    "module",
    [
        Factory(ModelConfig(vocab_size=9, model_dim=12, num_heads=3, feed_forward_dim=20)).encoder_decoder(),
        nn.ModuleList([EncoderBlock(12, 3, 20)]),
        nn.TransformerEncoderLayer(12, 3, 20),
    ],
    ids=lambda module: type(module).__name__,
)
def test_a_module_without_a_counterpart_is_refused_by_its_name(module: nn.Module) -> None:
    message = (
        "PyTorch has counterparts of MultiHeadAttention, EncoderBlock and DecoderBlock,"
        f" not of {type(module).__name__}; convert block by block, as in model.encoder.blocks[0]"
    )
    for call in (lambda: to_torch(module), lambda: load_torch(module, {})):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()
