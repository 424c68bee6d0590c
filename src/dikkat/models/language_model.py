"""The language model: one stack of blocks that continues a text, or fills in hidden tokens."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.kernels.linear import Products, linear
from dikkat.models.encoder_decoder import Encoder
from dikkat.nn.cache import StackCache
from dikkat.nn.layers import Dropout, TokenEmbedding, training_products
from dikkat.nn.masks import causal_mask
from dikkat.nn.named_positions import Positions

Objective = Literal["causal", "masked", "prefix"]
"""Predict the next token; the hidden tokens (Devlin et al. 2019); the tokens after a prefix that is read both ways
(Raffel et al. 2020, section 3.2.1)."""


class LanguageModel(nn.Module):
    """Embedding, blocks, output matrix (Radford et al. 2018, section 3.1); `output_weight` may be the embedding's.

    A decoder without a source is an encoder under a causal mask, so its blocks are encoder blocks.
    """

    products: Products = "exact"
    """How training multiplies by the output matrix; see `nn.linear.set_products`."""

    def __init__(
        self,
        embedding: TokenEmbedding,
        embedding_norm: nn.Module,
        positions: Positions,
        decoder: Encoder,
        output_weight: nn.Parameter,
        dropout: float = 0.0,
        objective: Objective = "causal",
        output_bias: nn.Parameter | None = None,
        output_transform: nn.Module | None = None,
        logit_softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.embedding_norm = embedding_norm
        self.positions = positions
        self.decoder = decoder
        self.output_weight = output_weight
        self.output_bias = output_bias
        self.output_transform = nn.Identity() if output_transform is None else output_transform
        self.logit_softcap = logit_softcap
        self.dropout = Dropout(dropout)
        self.objective: Objective = objective

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "..."] | None = None,
        position_ids: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits at every position: of the next token, or of this one where the objective is "masked"."""
        return self.project(self.hidden(tokens, mask, position_ids))

    def hidden(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "..."] | None = None,
        position_ids: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden states (B, T, D) of all positions.

        `mask`, broadcastable to (B, H, T, S), says all that may be seen; left out, it is causal, or nothing is hidden
        where the objective is "masked". `position_ids` are the positions where they are not 0 ... T-1: those of several
        documents in a row begin anew at each.
        """
        if mask is None and self.objective != "masked":
            mask = causal_mask(tokens.shape[1], device=tokens.device)
        x = self._positioned(self.embedding(tokens), position_ids)
        again = position_ids if self.decoder.adds_positions else None
        return self.decoder(self.dropout(self.embedding_norm(x)), mask, position_ids=again)

    def _positioned(self, x: Tensor, position_ids: Tensor | None) -> Tensor:
        if position_ids is None:
            return self.positions(x)
        # what is added to T zeros is the table itself: (T, D)[(B, T)] -> (B, T, D)
        return x + self.positions(x.new_zeros(1, *x.shape[1:]))[0][position_ids]

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Return the logits of hidden states."""
        hidden = self.output_transform(hidden)
        logits = linear(hidden, self.output_weight, self.output_bias, products=training_products(self))
        cap = self.logit_softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def start_cache(self) -> StackCache:
        """Return a cache that holds no tokens."""
        return StackCache(len(self.decoder.blocks))

    def read(self, tokens: Int[Tensor, "R T"], cache: StackCache) -> Float[Tensor, "R V"]:
        """Return the logits (R, V) of the token that follows `tokens`, which extend the cache.

        What a "prefix" model reads in one go is a prefix, each token of which sees all the others.
        """
        length = tokens.shape[1]
        hidden_ahead = length > 1 and self.objective != "prefix"
        mask = causal_mask(length, cache.length + length, device=tokens.device) if hidden_ahead else None
        x = self.embedding_norm(self.positions(self.embedding(tokens), offset=cache.length))
        return self.project(self.decoder(self.dropout(x), mask, cache.layers)[:, -1])

    def step(self, tokens: Int[Tensor, "R"], cache: StackCache) -> Float[Tensor, "R V"]:
        """Read one token; see `read`."""
        return self.read(tokens[:, None], cache)
