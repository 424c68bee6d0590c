"""A small encoder-decoder with no weight left at a value that hides mistakes, such as a zero bias."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model

VOCABULARY = 23


def config(**settings: Any) -> ModelConfig:
    small = {
        "vocab_size": VOCABULARY, "model_dim": 16, "num_heads": 4, "feed_forward_dim": 32, "encoder_layers": 2,
        "decoder_layers": 2, "dropout": 0.0,
    }  # fmt: skip
    return ModelConfig(**{**small, **settings})


def shake(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))


def small_model(**settings: Any) -> EncoderDecoder:
    model = build_model(config(**settings), seed=1)
    shake(model)
    return model.eval()


def some_tokens(*shape: int) -> Tensor:
    """Ids of real tokens."""
    return torch.randint(3, VOCABULARY, shape)


def real_tokens(lengths: list[int], size: int) -> Tensor:
    """(B, S), True at the first `lengths[b]` positions."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]
