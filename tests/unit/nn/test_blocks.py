"""Encoder and decoder blocks: sizes, independence, masks (against PyTorch's layers: tests/parity)."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.masks import causal_mask, key_mask, length_mask

Placement = Literal["pre", "post"]


def test_E05_encoder_block_of_seed_004() -> None:
    block = EncoderBlock(24, 8, 48, dropout=0.5, attention_bias=False)
    mask = key_mask(length_mask(torch.tensor([3, 2]), 100))
    assert block(torch.ones(2, 100, 24), mask).shape == (2, 100, 24)
    assert sum(parameter.numel() for parameter in block.parameters()) == 4_776


def test_E08_decoder_block_keeps_the_width_of_the_encoder() -> None:
    block = DecoderBlock(24, 8, 48, dropout=0.5, attention_bias=False)
    memory = torch.ones(2, 100, 24)
    mask = key_mask(length_mask(torch.tensor([3, 2]), 100))
    assert block(torch.ones(2, 100, 24), memory, causal_mask(100), mask).shape == (2, 100, 24)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_A17_memory_counts_and_the_future_does_not(placement: Placement) -> None:
    block = DecoderBlock(8, 2, 16, norm_placement=placement).eval()
    y, memory = torch.randn(1, 5, 8), torch.randn(1, 4, 8)
    output = block(y, memory, causal_mask(5))
    assert not torch.allclose(output, block(y, memory + torch.randn(1, 4, 8), causal_mask(5)))
    changed = y.clone()
    changed[:, 3] += torch.randn(8)
    difference = (output - block(changed, memory, causal_mask(5))).abs().amax(-1)[0]
    assert (difference[:3] <= 1e-6).all()
    assert (difference[3:] > 1e-3).all()


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_D05_words_meet_in_self_attention_only(placement: Placement) -> None:
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
    with pytest.raises(ValueError, match='norm placement must be "pre" or "post"'):
        EncoderBlock(8, 2, 16, norm_placement="none")
    with pytest.raises(ValueError, match="activation must be one of"):
        DecoderBlock(8, 2, 16, activation="tanh")
