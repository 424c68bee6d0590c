"""From configuration to model: one short method a part, to be read as a table of contents."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from dikkat.config import ModelConfig
from dikkat.models.decoder import Decoder
from dikkat.models.encoder import Encoder
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.positions import SinusoidalPositions

Block = TypeVar("Block", bound=nn.Module)


class Factory:
    """Builds the parts of the model that a `ModelConfig` describes."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def encoder_decoder(self) -> EncoderDecoder:
        source = self.embedding()
        target = source if self.config.tie_embeddings else self.embedding()
        return EncoderDecoder(
            source, target, self.positions(), self.encoder(), self.decoder(), self.output(target), self.config.dropout
        )

    def embedding(self) -> TokenEmbedding:
        return TokenEmbedding(self.config.vocab_size, self.config.model_dim)

    def positions(self) -> SinusoidalPositions:
        return SinusoidalPositions(self.config.model_dim)

    def encoder(self) -> Encoder:
        blocks = [_initialized(self.encoder_block()) for _ in range(self.config.encoder_layers)]
        return Encoder(blocks, self.final_norm())

    def decoder(self) -> Decoder:
        blocks = [_initialized(self.decoder_block()) for _ in range(self.config.decoder_layers)]
        return Decoder(blocks, self.final_norm())

    def encoder_block(self) -> EncoderBlock:
        return EncoderBlock(*self._sizes(), **self._habits())

    def decoder_block(self) -> DecoderBlock:
        return DecoderBlock(*self._sizes(), **self._habits())

    def final_norm(self) -> nn.Module:
        if self.config.norm_placement == "post":
            return nn.Identity()
        return nn.LayerNorm(self.config.model_dim, eps=self.config.norm_eps)

    def output(self, target: TokenEmbedding) -> nn.Parameter:
        if self.config.tie_embeddings:
            return target.weight
        weight = torch.empty(self.config.vocab_size, self.config.model_dim)
        return nn.Parameter(nn.init.xavier_uniform_(weight))

    def _sizes(self) -> tuple[int, int, int]:
        return self.config.model_dim, self.config.num_heads, self.config.feed_forward_dim

    def _habits(self) -> dict[str, Any]:
        config = self.config
        return {
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation": config.activation,
            "norm_placement": config.norm_placement,
            "norm_eps": config.norm_eps,
            "attention_bias": config.attention_bias,
        }


def build_model(config: ModelConfig, seed: int) -> EncoderDecoder:
    """The encoder-decoder of `config` with initial weights drawn from `seed`."""
    torch.manual_seed(seed)
    return Factory(config).encoder_decoder()


def _initialized(block: Block) -> Block:
    """Glorot-uniform matrices and zero biases (Glorot and Bengio 2010)."""
    for name, parameter in block.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return block
