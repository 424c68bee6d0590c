"""The sentence encoder: ids in, a vector for each token and for the whole out (the backbone of BERT)."""

from __future__ import annotations

from collections import OrderedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.encoder_decoder import Encoder
from dikkat.nn.dropout import Dropout
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.masks import key_mask
from dikkat.nn.named_positions import Positions


class Pooler(nn.Sequential):
    """Apply a linear layer and a tanh to the first position, as trained to tell whether two sentences are adjacent."""

    def __init__(self, model_dim: int) -> None:
        super().__init__(OrderedDict(dense=nn.Linear(model_dim, model_dim), tanh=nn.Tanh()))


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
