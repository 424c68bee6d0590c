"""Encoder and decoder blocks: sizes, independence, masks (against PyTorch's layers: tests/parity)."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import dikkat.nn
from dikkat.nn.blocks import BlockSettings, DecoderBlock, EncoderBlock
from dikkat.nn.layers import FeedForward, GatedFeedForward, RMSNorm
from dikkat.nn.masks import causal_mask, key_mask, length_mask
from dikkat.nn.scorers import AttentionScorer
from dikkat.nn.sliding_window import Window

Placement = Literal["pre", "post"]


@pytest.mark.seed("E5")
def test_encoder_block_of_seed_004() -> None:
    block = EncoderBlock(24, 8, 48, dropout=0.5, attention_bias=False)
    mask = key_mask(length_mask(torch.tensor([3, 2]), 100))
    assert block(torch.ones(2, 100, 24), mask).shape == (2, 100, 24)
    assert sum(parameter.numel() for parameter in block.parameters()) == 4_776


@pytest.mark.seed("E8")
def test_decoder_block_keeps_the_width_of_the_encoder() -> None:
    block = DecoderBlock(24, 8, 48, dropout=0.5, attention_bias=False)
    memory = torch.ones(2, 100, 24)
    mask = key_mask(length_mask(torch.tensor([3, 2]), 100))
    assert block(torch.ones(2, 100, 24), memory, causal_mask(100), mask).shape == (2, 100, 24)


@pytest.mark.seed("A17")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_memory_counts_and_the_future_does_not(placement: Placement) -> None:
    block = DecoderBlock(8, 2, 16, norm_placement=placement).eval()
    y, memory = torch.randn(1, 5, 8), torch.randn(1, 4, 8)
    output = block(y, memory, causal_mask(5))
    assert not torch.allclose(output, block(y, memory + torch.randn(1, 4, 8), causal_mask(5)))
    changed = y.clone()
    changed[:, 3] += torch.randn(8)
    difference = (output - block(changed, memory, causal_mask(5))).abs().amax(-1)[0]
    assert (difference[:3] <= 1e-6).all()
    assert (difference[3:] > 1e-3).all()


@pytest.mark.seed("D5")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_words_meet_in_self_attention_only(placement: Placement) -> None:
    """With the diagonal as mask every word keeps to itself; without, a change reaches all others."""
    block, x = EncoderBlock(8, 2, 16, norm_placement=placement).eval(), torch.randn(1, 5, 8)
    changed = x.clone()
    changed[:, 2] += torch.randn(8)
    for mask, reached in ((torch.eye(5, dtype=torch.bool), 1), (None, 5)):
        difference = (block(x, mask) - block(changed, mask)).abs().amax(-1)[0]
        assert int((difference > 1e-6).sum()) == reached


@pytest.mark.parametrize("block", [EncoderBlock(8, 2, 16), DecoderBlock(8, 2, 16)], ids=["encoder", "decoder"])
def test_without_dropout_training_is_evaluation(block: EncoderBlock | DecoderBlock) -> None:
    x = torch.randn(2, 5, 8)
    memory = [x] if isinstance(block, DecoderBlock) else []
    assert torch.equal(block.train()(x, *memory), block.eval()(x, *memory))


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
def test_each_dropout_is_applied(where: str) -> None:
    x = torch.randn(2, 5, 8)
    rates = {where: 0.5}
    encoder, decoder = EncoderBlock(8, 2, 16, **rates), DecoderBlock(8, 2, 16, **rates)  # type: ignore[arg-type]
    assert not torch.allclose(encoder(x), encoder(x))
    assert not torch.allclose(decoder(x, x), decoder(x, x))


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="norm placement must be one of post, pre"):
        EncoderBlock(8, 2, 16, norm_placement="none")
    with pytest.raises(ValueError, match="activation must be one of"):
        DecoderBlock(8, 2, 16, activation="tanh")


def test_settings_may_come_together_one_by_one_or_both() -> None:
    settings = BlockSettings(activation="swiglu", norm="rms", num_kv_heads=1)
    for block in (
        EncoderBlock(8, 2, 16, settings),
        EncoderBlock(8, 2, 16, activation="swiglu", norm="rms", num_kv_heads=1),
    ):
        assert isinstance(block.feed_forward, GatedFeedForward)
        assert isinstance(block.self_residual.norm, RMSNorm)
        assert block.self_attention.num_kv_heads == 1
    assert isinstance(EncoderBlock(8, 2, 16, settings, activation="relu").feed_forward, FeedForward)
    with pytest.raises(TypeError, match="drop_out"):
        EncoderBlock(8, 2, 16, drop_out=0.1)


def test_positions_and_window_are_for_self_attention_alone() -> None:
    block = DecoderBlock(8, 2, 16, positions="rotary", attention_window=1, score="additive")
    assert block.self_attention.rotary is not None
    assert block.self_attention.window == Window(1, causal=True)
    assert block.cross_attention.rotary is None
    assert block.cross_attention.window is None
    for attention in (block.self_attention, block.cross_attention):
        assert isinstance(attention.comparison, AttentionScorer)


def test_the_bricks_compose_outside_our_models() -> None:
    """A classifier of rows from public names alone learns a rule about the first token."""
    x, wanted = torch.randn(32, 6, 8), torch.zeros(32)
    wanted[x[:, 0, 0] > 0] = 1.0
    block = dikkat.nn.EncoderBlock(8, 2, 16, positions="relative", norm="rms", activation="geglu")
    head = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*block.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(60):
        loss = binary_cross_entropy_with_logits(head(block(x))[:, 0, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 < losses[0]
    assert set(dikkat.nn.__all__) <= set(dir(dikkat.nn))
