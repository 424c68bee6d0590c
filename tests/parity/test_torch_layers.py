"""Our blocks and stacks against PyTorch's Transformer layers with copied weights: outputs and input gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.parity.weights import copy_decoder_block, copy_encoder_block, shake
from torch import Tensor, nn

from dikkat.models.encoder_decoder import Decoder, Encoder
from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.masks import causal_mask, key_mask

D, H, F, S, T = 16, 4, 40, 6, 5
SOURCE_REAL = torch.tensor([[True] * 6, [True, True, True, False, False, False], [True] + [False] * 5])
TARGET_REAL = torch.tensor([[True] * 5, [True, True, False, False, False], [True] * 5])


@dataclass(frozen=True)
class Kind:
    """One of the four kinds of layer, said in our words and in PyTorch's."""

    placement: str
    activation: str

    @property
    def theirs(self) -> dict[str, Any]:
        return {
            "dim_feedforward": F, "dropout": 0.0, "activation": self.activation,
            "norm_first": self.placement == "pre", "batch_first": True,
        }  # fmt: skip

    def encoder_pair(self) -> tuple[EncoderBlock, nn.TransformerEncoderLayer]:
        theirs = nn.TransformerEncoderLayer(D, H, **self.theirs)
        shake(theirs)
        ours = EncoderBlock(D, H, F, activation=self.activation, norm_placement=self.placement)
        copy_encoder_block(ours, theirs)
        return ours, theirs

    def decoder_pair(self) -> tuple[DecoderBlock, nn.TransformerDecoderLayer]:
        theirs = nn.TransformerDecoderLayer(D, H, **self.theirs)
        shake(theirs)
        ours = DecoderBlock(D, H, F, activation=self.activation, norm_placement=self.placement)
        copy_decoder_block(ours, theirs)
        return ours, theirs

    def final_norm(self) -> nn.LayerNorm | None:
        if self.placement == "post":
            return None
        norm = nn.LayerNorm(D)
        shake(norm)
        return norm


KINDS = [Kind(placement, activation) for placement in ("pre", "post") for activation in ("relu", "gelu")]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.placement}-{kind.activation}")
flags = [False, True]


def leaf(*shape: int) -> tuple[Tensor, Tensor]:
    """The same random tensor twice, each with a gradient of its own."""
    x = torch.randn(shape)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


def agree(ours: Tensor, theirs: Tensor, *leaves: tuple[Tensor, Tensor]) -> None:
    """Outputs, then the gradients of every input."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    ours.sin().sum().backward()
    theirs.sin().sum().backward()
    for mine, other in leaves:
        assert mine.grad is not None
        assert other.grad is not None
        assert mine.grad.abs().max() > 1e-2
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=1e-5)


@pytest.mark.seed("A25")
@every_kind
@pytest.mark.parametrize("padded", flags)
@pytest.mark.parametrize("causal", flags)
@pytest.mark.parametrize("training", flags)
def test_encoder_block(kind: Kind, padded: bool, causal: bool, training: bool) -> None:
    ours, theirs = kind.encoder_pair()
    mine, other = leaf(3, S, D)
    mask = torch.ones(1, 1, 1, S, dtype=torch.bool)
    options: dict[str, Any] = {}
    if padded:
        mask, options["src_key_padding_mask"] = mask & key_mask(SOURCE_REAL), ~SOURCE_REAL
    if causal:
        mask, options["src_mask"] = mask & causal_mask(S), ~causal_mask(S)[0, 0]
    ours.train(training)
    theirs.train(training)
    agree(ours(mine, mask), theirs(other, **options), (mine, other))


@pytest.mark.seed("A25")
@every_kind
def test_encoder_block_against_the_fast_path_of_evaluation(kind: Kind) -> None:
    """Without gradients PyTorch takes another, fused implementation of the whole layer."""
    ours, theirs = kind.encoder_pair()
    x = torch.randn(3, S, D)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=1e-5)


@every_kind
@pytest.mark.parametrize("padded", flags)
@pytest.mark.parametrize("causal", flags)
def test_decoder_block(kind: Kind, padded: bool, causal: bool) -> None:
    ours, theirs = kind.decoder_pair()
    (mine, other), (memory, other_memory) = leaf(3, T, D), leaf(3, S, D)
    mask, memory_mask = torch.ones(1, 1, 1, T, dtype=torch.bool), None
    options: dict[str, Any] = {}
    if padded:
        mask, memory_mask = mask & key_mask(TARGET_REAL), key_mask(SOURCE_REAL)
        options |= {"tgt_key_padding_mask": ~TARGET_REAL, "memory_key_padding_mask": ~SOURCE_REAL}
    if causal:
        mask, options["tgt_mask"] = mask & causal_mask(T), ~causal_mask(T)[0, 0]
    output = ours(mine, memory, mask, memory_mask)
    agree(output, theirs(other, other_memory, **options), (mine, other), (memory, other_memory))


@every_kind
def test_encoder_stack(kind: Kind) -> None:
    pairs, norm = [kind.encoder_pair() for _ in range(3)], kind.final_norm()
    theirs = nn.TransformerEncoder(pairs[0][1], 3, norm=norm, enable_nested_tensor=False)
    theirs.layers = nn.ModuleList([layer for _, layer in pairs])
    ours = Encoder([block for block, _ in pairs], norm if norm is not None else nn.Identity())
    mine, other = leaf(3, S, D)
    agree(ours(mine, key_mask(SOURCE_REAL)), theirs(other, src_key_padding_mask=~SOURCE_REAL), (mine, other))


@every_kind
def test_decoder_stack_is_causal_by_itself(kind: Kind) -> None:
    pairs, norm = [kind.decoder_pair() for _ in range(3)], kind.final_norm()
    theirs = nn.TransformerDecoder(pairs[0][1], 3, norm=norm)
    theirs.layers = nn.ModuleList([layer for _, layer in pairs])
    ours = Decoder([block for block, _ in pairs], norm if norm is not None else nn.Identity())
    (mine, other), (memory, other_memory) = leaf(3, T, D), leaf(3, S, D)
    expected = theirs(other, other_memory, tgt_mask=~causal_mask(T)[0, 0], memory_key_padding_mask=~SOURCE_REAL)
    agree(ours(mine, memory, key_mask(SOURCE_REAL)), expected, (mine, other), (memory, other_memory))
