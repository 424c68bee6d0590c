"""The classifier: an encoder, pooled to one vector a text, and a linear layer over the classes."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.models.encoder_decoder import Encoder
from dikkat.nn.layers import Dropout, TokenEmbedding, checked_probability
from dikkat.nn.masks import key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import Positions
from dikkat.nn.pooling import Pooling

# The sentence encoder: ids in, a vector for each token and for the whole out (the backbone of BERT).

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity, "gelu": nn.GELU, "gelu_tanh": partial(nn.GELU, approximate="tanh"), "relu": nn.ReLU,
    "silu": nn.SiLU, "tanh": nn.Tanh,
}  # fmt: skip


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
        dense: nn.Module | None = None,
    ) -> None:
        """Layers `dense` may follow on the vector of a text."""
        super().__init__()
        self.embedding = embedding
        self.segment_embedding = nn.Parameter(torch.zeros(segments, embedding.weight.shape[1]))
        self.positions = positions
        self.embedding_norm = embedding_norm
        self.encoder = encoder
        self.pooler, self.dense = pooler, nn.Identity() if dense is None else dense
        self.dropout = Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], segments: Int[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return hidden states (B, S, D); `mask` is True at real tokens, and `segments` default to the first."""
        segment = self.segment_embedding[0] if segments is None else self.segment_embedding[segments]
        x = self.positions(self.embedding(tokens) + segment)
        return self.encoder(self.dropout(self.embedding_norm(x)), key_mask(mask))

    def summary(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
        """Return the first position (B, D) after the pooler."""
        return self.pooler(hidden[:, 0])


RUN = 16
"""Tokens side by side that are seen or hidden together."""


class EncoderClassifier(nn.Module):
    """Classify texts with embeddings, encoder, masked pooling and an output layer (fault F5: each part exists once).

    Where it `is_binary` its output is the logit of the second of two classes, and that of the first is 0: the softmax
    over the two is then the logistic function, its cross-entropy the binary one. In training each token but the
    first is hidden with probability `word_dropout`: neither attention nor pooling sees it, so no single word decides.
    Of a text with more than `seen_tokens` it then sees so many, in runs that are drawn.
    A `transform` stands between pooling and output. Where it is `per_token`, nothing is pooled.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        positions: Positions,
        embedding_norm: nn.Module,
        encoder: Encoder,
        pooling: Pooling,
        output: nn.Linear,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        transform: nn.Module | None = None,
        *,
        is_binary: bool = False,
        per_token: bool = False,
        seen_tokens: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.embedding_norm = embedding_norm
        self.encoder = encoder
        self.pooling, self.is_binary, self.per_token = pooling, is_binary, per_token
        self.output = output
        self.transform = nn.Identity() if transform is None else transform
        self.dropout = Dropout(dropout)
        self.word_dropout, self.seen_tokens = checked_probability(word_dropout), seen_tokens

    def forward(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B *L C"]:
        """Return the logits (B, C), or (B, S, C) `per_token`; `mask` is True at real tokens, at least one a text."""
        position_ids = None
        if self.training and (self.word_dropout > 0.0 or self.seen_tokens is not None):
            mask = self._hide_words(mask)
            if self._can_leave_out():
                position_ids = shown_first(mask)
                mask = mask.gather(1, position_ids)
        states = self.encode(tokens, mask, position_ids)
        pooled = states if self.per_token else self.pooling(states, mask)
        logits = self.output(self.dropout(self.transform(pooled)))
        # (B, 1) -> (B, 2)
        return F.pad(logits, (1, 0)) if self.is_binary else logits

    def encode(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B N"], position_ids: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B N D"]:
        """Return hidden states of all positions, or only of `position_ids`; `mask` is for the returned ones."""
        if position_ids is not None:
            tokens = tokens.gather(1, position_ids)
        x = self.dropout(self.embedding_norm(self.positions(self.embedding(tokens), position_ids=position_ids)))
        return self.encoder(x, key_mask(mask), position_ids=position_ids)

    def _can_leave_out(self) -> bool:
        """Whether the encoder may be given what is shown and nothing else; a GPU would have to be waited for."""
        attentions = [part for part in self.encoder.modules() if isinstance(part, MultiHeadAttention)]
        return self.output.weight.device.type == "cpu" and all(
            attention.supports_position_ids for attention in attentions
        )

    def _hide_words(self, mask: Tensor) -> Tensor:
        kept = torch.rand(mask.shape, device=mask.device) >= self.word_dropout
        if self.seen_tokens is not None:
            # runs without a token come last; (B, S / RUN) -> (B, S)
            order = torch.rand(mask[:, ::RUN].shape, device=mask.device) + 1.0 - mask[:, ::RUN].float()
            shown = order.argsort(dim=1).argsort(dim=1) < max(1, self.seen_tokens // RUN)
            kept &= shown.repeat_interleave(RUN, dim=1)[:, : mask.shape[1]]
        kept[:, 0] = True
        return mask & kept


def shown_first(mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B N"]:
    """Return the positions where `mask` is True, rising, padded to the length of the fullest row."""
    return (~mask).byte().argsort(dim=1, stable=True)[:, : int(mask.sum(dim=1).max())]
