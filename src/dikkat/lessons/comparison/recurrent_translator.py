"""A recurrent translator with attention, the kind that came before the Transformer (Luong et al. 2015)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dikkat.lessons.comparison.layers import count_parameters

TranslatorCell = Literal["gru", "lstm"]
CELLS: dict[TranslatorCell, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
LAYERS = 2
"""Of the encoder, which reads in both directions, and of the decoder."""


class RecurrentTranslator(nn.Module):
    """Compute logits of a translation with PyTorch's own recurrences and global attention.

    The encoder reads the source in both directions; the decoder starts from its last states. At each position the
    decoder's state is compared with every state of the source (bilinear, "general" in Luong et al. 2015, section 3.1),
    and their weighted sum joins it before the vocabulary. Nothing is fed back into the decoder but the token, so that
    all positions of a target are trained in one call. Source, target and output share one embedding matrix.
    """

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, cell: TranslatorCell, dropout: float
    ) -> None:
        super().__init__()
        kind: Any = CELLS[cell]
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=embedding_dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        half = hidden_dim // 2
        settings = {"num_layers": LAYERS, "batch_first": True, "dropout": dropout}
        self.encoder = kind(embedding_dim, half, bidirectional=True, **settings)
        self.decoder = kind(embedding_dim, hidden_dim, **settings)
        self.score = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.joined = nn.Linear(2 * hidden_dim, embedding_dim)
        self.output_bias = nn.Parameter(torch.zeros(vocab_size))
        self._start: Any = None

    @property
    def output_weight(self) -> Tensor:
        """Return the matrix (V, D) of embedding and output."""
        return self.embedding.weight

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S H"]:
        """Return the states of the source; its last ones are kept for the decoder that reads them next."""
        embedded = self.dropout(self.embedding(source))
        packed = pack_padded_sequence(embedded, source_mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        self._start = _joined_directions(last)
        memory, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return memory

    def decode(
        self, target: Int[Tensor, "B T"], memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        """Return what the output matrix turns into logits, for all target positions of the source just encoded."""
        states, _ = self.decoder(self.dropout(self.embedding(target)), self._start)
        return self._attended(states, memory, source_mask)

    def _attended(
        self, states: Float[Tensor, "B T H"], memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        # (B, T, H) x (B, S, H) -> (B, T, S)
        scores = self.score(states) @ memory.transpose(1, 2)
        weights = scores.masked_fill(~source_mask.unsqueeze(1), -torch.inf).softmax(dim=-1)
        joined = torch.cat((weights @ memory, states), dim=-1)
        output: Tensor = self.dropout(torch.tanh(self.joined(joined)))
        return output

    def start_cache(
        self, memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> RecurrentCache:
        """Return the state in which the sources just encoded leave the decoder, one row a sentence."""
        if rows_per_sentence != 1:
            raise ValueError("the recurrent translator is only decoded greedily: rows_per_sentence must be 1")
        return RecurrentCache(memory, source_mask, self._start)

    def step(self, tokens: Int[Tensor, "R"], cache: RecurrentCache) -> Float[Tensor, "R V"]:
        """Feed every row a token, and return the logits of the next."""
        states, cache.state = self.decoder(self.dropout(self.embedding(tokens.unsqueeze(1))), cache.state)
        cache.length += 1
        hidden = self._attended(states, cache.memory, cache.source_mask)[:, 0]
        return hidden @ self.output_weight.T + self.output_bias


class RecurrentCache:
    """Hold the states of the decoder and of the sources of a batch that is decoded; see `DecoderCache`."""

    def __init__(self, memory: Tensor, source_mask: Tensor, state: Any) -> None:
        self.memory, self.source_mask, self.state = memory, source_mask, state
        self.length = 0

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        """Let row `r` continue row `index[r]`."""
        self.state = _of_states(self.state, lambda states: states.index_select(1, index))

    def drop(self, keep: Int[Tensor, "N"]) -> None:
        """Keep only the sentences numbered in `keep`."""
        self.memory, self.source_mask = self.memory[keep], self.source_mask[keep]
        self.reorder(keep)


def _joined_directions(last: Any) -> Any:
    """(2 L, B, H / 2) to (L, B, H): the last states of both directions of a layer, side by side."""
    return _of_states(last, lambda states: torch.cat((states[0::2], states[1::2]), dim=-1).contiguous())


def _of_states(state: Any, change: Any) -> Any:
    """Apply `change` to the states, and in an LSTM to its cells as well."""
    return tuple(map(change, state)) if isinstance(state, tuple) else change(state)


def recurrent_translator(
    parameters: int, vocab_size: int, embedding_dim: int, cell: TranslatorCell, dropout: float, seed: int
) -> RecurrentTranslator:
    """Build the recurrent translator whose size comes nearest to so many parameters; weights are drawn from `seed`."""

    def size(hidden_dim: int) -> int:
        with torch.device("meta"):
            return count_parameters(RecurrentTranslator(vocab_size, embedding_dim, hidden_dim, cell, dropout))

    # it grows with the width: double it past the aim, then halve the interval; an even one has two equal directions
    widest = 2
    while size(widest) < parameters:
        widest *= 2
    hidden_dim = min(range(max(2, widest // 2), widest + 1, 2), key=lambda width: abs(size(width) - parameters))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RecurrentTranslator(vocab_size, embedding_dim, hidden_dim, cell, dropout)
