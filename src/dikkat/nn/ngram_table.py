"""A linear model over the tokens and the pairs of neighbouring tokens of a text."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.kernels.embedding import embedding_rows
from dikkat_runtime.ngrams import NGRAM_SCALE, pair_rows, token_rows


class NgramTable(nn.Module):
    """Score texts by their tokens and pairs of neighbouring tokens, hashed into `rows` rows.

    It is the linear model of Joulin et al. (2017, section 2.1) without hidden layer. Every row holds a number for each
    of `outputs`, zero before anything is known; the score of a text is `NGRAM_SCALE` times the sum of the rows of its
    tokens and pairs. Order beyond two tokens is left to the encoder.
    """

    def __init__(self, rows: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(rows, outputs))

    def forward(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B C"]:
        """Return the scores (B, C) of the tokens that `mask` shows and of the pairs both of whose tokens it shows."""
        size = self.embedding.shape[0]
        rows = torch.cat((token_rows(tokens, size), pair_rows(tokens, size)), dim=1)
        shown = torch.cat((mask, mask[:, :-1] & mask[:, 1:]), dim=1)
        # (B, 2S - 1) -> (B, 2S - 1, C)
        numbers = embedding_rows(self.embedding, rows)
        # summed in float32: bfloat16 would lose most of hundreds of addends
        return NGRAM_SCALE * (numbers * shown[..., None]).sum(dim=1, dtype=torch.float32)
