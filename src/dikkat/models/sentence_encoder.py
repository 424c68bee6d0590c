"""The sentence encoder: ids in, a vector for each token and for the whole out (the backbone of BERT)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.encoder_decoder import Encoder
from dikkat.nn.dropout import Dropout
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.masks import key_mask
from dikkat.nn.named_positions import Positions

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def transform(inputs: int, outputs: int, activation: str, norm: nn.Module | None = None) -> nn.Sequential:
    """Build a linear layer with an activation, and with a norm where one is given; BERT's pooler has a tanh."""
    parts: dict[str, nn.Module] = {"dense": nn.Linear(inputs, outputs), "activation": _ACTIVATIONS[activation]()}
    return nn.Sequential(OrderedDict(parts if norm is None else {**parts, "norm": norm}))


class SentenceEncoder(nn.Module):
    """Embed tokens, positions and segments, normalise, and run the encoder (Devlin et al. 2019, figure 2)."""

    def __init__(
        self,
        embedding: TokenEmbedding,
        segments: int,
        positions: Positions,
        embedding_norm: nn.Module,
        encoder: Encoder,
        pooler: nn.Module,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.segment_embedding = nn.Parameter(torch.zeros(segments, embedding.weight.shape[1]))
        self.positions = positions
        self.embedding_norm = embedding_norm
        self.encoder = encoder
        self.pooler = pooler
        self.dropout = Dropout(dropout)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """Return hidden states (B, S, D); `mask` is True at real tokens, and `segments` default to the first."""
        segment = self.segment_embedding[0] if segments is None else self.segment_embedding[segments]
        x = self.positions(self.embedding(tokens) + segment)
        return self.encoder(self.dropout(self.embedding_norm(x)), key_mask(mask))

    def summary(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
        """Return the first position (B, D) after the pooler."""
        return self.pooler(hidden[:, 0])
