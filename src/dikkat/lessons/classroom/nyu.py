"""The encoder and the sentiment classifier of the NYU course, lecture 12-3 and its notebook 15, *Transformer*."""

from collections import Counter
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from dikkat import nn as ours
from dikkat.nn import attention
from dikkat.nn.functional import attention_weights
from dikkat.nn.pooling import MaxPooling

# A key-value store: a recipe book that is searched by how alike its titles are to what is asked (lecture 12-3).


Content = TypeVar("Content")


class Retrieved(NamedTuple, Generic[Content]):
    """One entry of the store, and its share of the attention."""

    share: float
    title: str
    content: Content


class KeyValueStore(Generic[Content]):
    """A store whose keys are titles and whose values are what they stand for.

    A text is compared with the titles by its pairs of letters.

    Raises `ValueError` without an entry.
    """

    def __init__(self, entries: Mapping[str, Content]) -> None:
        if not entries:
            raise ValueError("a store needs at least one entry")
        self.entries = dict(entries)
        pairs = sorted({pair for title in entries for pair in letter_pairs(title)})
        self._columns = {pair: column for column, pair in enumerate(pairs)}
        self.keys = torch.stack([self.vector(title) for title in entries])
        """(t, d): a row of unit length for each title."""

    def vector(self, text: str) -> Tensor:
        """Count how often each known pair of letters is in `text` (d,), scaled to unit length; zeros where none is."""
        row = torch.zeros(len(self._columns))
        for pair, count in letter_pairs(text).items():
            if pair in self._columns:
                row[self._columns[pair]] = count
        return row / row.norm().clamp_min(1e-9)

    def search(self, query: str, beta: float = 5.0) -> list[Retrieved[Content]]:
        """Return every entry by soft argmax, the one most like `query` first; the shares sum to one."""
        return sorted(self._retrieved(query, beta, hard=False), key=lambda retrieved: -retrieved.share)

    def get(self, query: str) -> Content:
        """Return the content of the entry whose title is most like `query` (argmax), the first of equals."""
        return next(retrieved.content for retrieved in self._retrieved(query, 1.0, hard=True) if retrieved.share)

    def _retrieved(self, query: str, beta: float, *, hard: bool) -> list[Retrieved[Content]]:
        # the values only have to be mixed in theory: of recipes, each is kept whole
        _, weights = attention(self.vector(query)[None], self.keys, self.keys, score="dot", beta=beta, hard=hard)
        return [Retrieved(float(share), *entry) for share, entry in zip(weights[0], self.entries.items(), strict=True)]


def letter_pairs(text: str) -> Counter[str]:
    """Pairs of neighbouring letters in the words of `text`, with a space before and after each word."""
    words = [f" {word} " for word in text.lower().split()]
    return Counter(word[at : at + 2] for word in words for at in range(len(word) - 1))


PAD = 1
"""The id of padding in the notebook's vocabulary."""


class MultiHeadAttention(nn.Module):
    """Attention that returns its output H and its weights A; which one it is depends on where keys come from (F8)."""

    def __init__(self, d_model: int, num_heads: int, p: float, d_input: tuple[int, int, int] | None = None) -> None:
        super().__init__()
        query, key, value = (d_model,) * 3 if d_input is None else d_input
        self.attention = ours.MultiHeadAttention(
            d_model, num_heads, query_dim=query, key_dim=key, value_dim=value, bias=False, output_bias=True, dropout=p
        )

    def forward(self, X_q: Tensor, X_k: Tensor, X_v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """H (bs, q_length, d_model) and A (bs, num_heads, q_length, k_length), no `bs` in both where `X_q` has none."""
        weights: list[Tensor] = []
        with self.attention.read_weights(weights.append):
            output = self.attention(X_q, X_k, X_v, mask)
        return output, weights[0] if X_q.ndim == 3 else weights[0].squeeze(0)


class EncoderLayer(ours.EncoderBlock):
    """Self-attention, then two "1D convolutions", which are linear layers; each with a sum and a norm after it."""

    def __init__(self, d_model: int, num_heads: int, conv_hidden_dim: int, p: float = 0.1) -> None:
        choices = ours.BlockSettings(dropout=p, attention_bias=False, attention_output_bias=True, norm_eps=1e-6)
        super().__init__(d_model, num_heads, conv_hidden_dim, choices)


class Embeddings(nn.Module):
    """Word embeddings plus sines and cosines, normalised."""

    def __init__(self, d_model: int, vocab_size: int, max_position_embeddings: int) -> None:
        super().__init__()
        self.word_embeddings = ours.TokenEmbedding(vocab_size, d_model, scaled=False)
        self.positions = ours.SinusoidalPositions(d_model, initial_length=max_position_embeddings)
        self.max_position_embeddings = max_position_embeddings
        self.norm = ours.LayerNorm(d_model, eps=1e-12)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.norm(self.positions(self.word_embeddings(input_ids)))


class Encoder(nn.Module):
    """Embeddings and `num_layers` layers; padding is not attended to (fault F6)."""

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        ff_hidden_dim: int,
        input_vocab_size: int,
        maximum_position_encoding: int = 10000,
        p: float = 0.1,
    ) -> None:
        super().__init__()
        self.embedding = Embeddings(d_model, input_vocab_size, maximum_position_encoding)
        self.enc_layers = nn.ModuleList(EncoderLayer(d_model, num_heads, ff_hidden_dim, p) for _ in range(num_layers))

    def forward(self, x: Tensor) -> Tensor:
        """Encode ids (batch_size, input_seq_length) to (batch_size, input_seq_length, d_model)."""
        mask = ours.key_mask(x != PAD)
        x = self.embedding(x)
        for layer in self.enc_layers:
            x = layer(x, mask)
        return x


class TransformerClassifier(nn.Module):
    """The encoder, the maximum over the words of a text, and a linear layer over the answers (fault F5)."""

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        conv_hidden_dim: int,
        input_vocab_size: int,
        num_answers: int,
        p: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(num_layers, d_model, num_heads, conv_hidden_dim, input_vocab_size, p=p)
        self.pooling = MaxPooling()
        self.dense = nn.Linear(d_model, num_answers)

    def forward(self, x: Tensor) -> Tensor:
        """Score ids as (batch_size, num_answers); padding changes nothing, and never wins the maximum (fault F6)."""
        return self.dense(self.pooling(self.encoder(x), x != PAD))


def softargmax(scores: Tensor, beta: float = 1.0, *, hard: bool = False) -> Tensor:
    """Compute [soft](arg)max of scores (..., n) at the inverse temperature `beta`; `hard` gives one-hot weights."""
    return attention_weights(scores, beta=beta, hard=hard)


def self_attention(X: Tensor, beta: float = 1.0, *, hard: bool = False) -> tuple[Tensor, Tensor]:
    """H = XA and A of the t columns of X (n, t), with A = [soft](arg)max(XᵀX): the lecture's sets of columns."""
    rows = X.transpose(-2, -1)
    output, weights = ours.attention(rows, rows, rows, score="dot", beta=beta, hard=hard)
    return output.transpose(-2, -1), weights.transpose(-2, -1)


def parameters(model: nn.Module) -> int:
    """Count the numbers of `model` that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def review_batch(rows: list[list[int]], length: int = 200) -> Tensor:
    """Reviews cut to `length` and filled up with padding, one a row."""
    cut = [row[:length] for row in rows]
    widest = max(map(len, cut))
    return torch.tensor([[*row, *[PAD] * (widest - len(row))] for row in cut])
