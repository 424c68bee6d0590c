"""What the native decoding step does, by PyTorch in bfloat16; see `layers_by_torch`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import BFloat16, Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.attention_by_torch import attend, attention_weights
from dikkat.native.decoder import DecoderWeights
from dikkat.native.layers import LinearWeights
from dikkat.native.layers_by_torch import Activation, PackedLinear, SubLayers
from dikkat.native.sources_by_torch import SourcesByTorch

SIZES = 8
"""Numbers of rows that the products of one batch have, about, since oneDNN compiles one for each: eighths, and halves
of the last.
"""
FEWEST = 16
"""Rows below which one less saves nothing."""
FIRST_ROOM = 32
"""Positions of the cache at the beginning."""


class DecoderByTorch:
    """A decoder of packed weights."""

    def __init__(self, weights: DecoderWeights) -> None:
        """Raises `ValueError` for weights that are no numbers."""
        self.layers, self.heads, self.betas = weights.num_layers, weights.num_heads, weights.betas
        self.width = weights.num_heads * weights.head_dim
        self.vocabulary = weights.embedding.shape[0]
        self.embedding = (weights.embedding * weights.embedding_scale).to(torch.bfloat16)
        self.stream = SubLayers(weights.norms, post_norm=weights.post_norm)
        activation: Activation = "gelu" if weights.gelu else "relu"
        self.linears = [
            PackedLinear(each, activation if place % 6 == 4 and place < 6 * self.layers else "none")
            for place, each in enumerate(weights.linears)
        ]
        # one product makes the keys and values of all layers
        biases = [each.bias for each in weights.sources if each.bias is not None]
        matrix = torch.cat([each.weight for each in weights.sources])
        self.source = PackedLinear(LinearWeights(matrix, torch.cat(biases) if biases else None))


class StepsByTorch:
    """As `DecoderSteps`: the steps of B sentences with `rows_per_sentence` hypotheses each, and their cache.

    Sentences that leave keep their places until so many have left that there is a smaller size of product.
    Places are in units of sentences, and all that is computed is computed of all places.
    """

    def __init__(
        self,
        weights: DecoderByTorch,
        memory: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        rows_per_sentence: int,
    ) -> None:
        """`memory` is the source as the encoder left it; `mask` is True at tokens."""
        sentences = mask.shape[0]
        self.sentences = list(range(sentences))
        """Numbers, in the batch this began with, of those still in it."""
        self.length = 0
        """Target positions held: the position of the next token."""
        self.rows_per_sentence = rows_per_sentence
        self._weights = weights
        self._least = max(1, FEWEST // rows_per_sentence)
        self._unit = 1 << (max(self._least, -(-sentences // SIZES)) - 1).bit_length()
        self._within = torch.arange(rows_per_sentence).expand(sentences, -1)
        """Rows of the hypotheses in the places of their sentences."""
        self._places = self._places_for(sentences)
        shape = weights.layers, weights.heads
        self._source = SourcesByTorch(weights.source, shape, memory, mask, self._places, rows_per_sentence)
        self._taken = self._source.places
        """Places of the sentences."""
        self._cache: Tensor
        """(T, L, 2, R, D): keys and values by position."""
        self._make_room(FIRST_ROOM)
        self._find_rows()

    @property
    def rows(self) -> int:
        """R, rows of the sentences that are still in."""
        return len(self._taken) * self.rows_per_sentence

    def step(
        self,
        tokens: Int[Tensor, "R"],
        position: Float[Tensor, "D"],
        seen: Mapping[int, Tensor] = MappingProxyType({}),
    ) -> BFloat16[Tensor, "R V"]:
        """See `DecoderSteps.step`."""
        weights, places = self._weights, self._places * self.rows_per_sentence
        if tokens.shape != (self.rows,):
            raise ValueError(f"the cache has {self.rows} rows, but the tokens have the shape {tuple(tokens.shape)}")
        if self.length == self._cache.shape[0]:
            self._make_room(2 * self.length)
        everywhere = torch.zeros(places, dtype=torch.int64).index_copy_(0, self._live, tokens)
        try:
            x = F.embedding(everywhere, weights.embedding)
        except IndexError:
            raise IndexError(f"a token must lie between 0 and {weights.vocabulary - 1}") from None
        x, normed = weights.stream.begin(x + position.to(torch.bfloat16))
        for layer in range(weights.layers):
            inward, outward, query, outward_of_source, inner, outer = weights.linears[6 * layer : 6 * layer + 6]
            mixed = self._attend_to_self(inward(normed), layer, seen.get(2 * layer))
            x, normed = weights.stream.after(3 * layer + 1, outward.added_to(x, mixed))
            mixed = self._attend_to_source(query(normed), layer, seen.get(2 * layer + 1))
            x, normed = weights.stream.after(3 * layer + 2, outward_of_source.added_to(x, mixed))
            x, normed = weights.stream.after(3 * layer + 3, outer.added_to(x, inner(normed)))
        self.length += 1
        # rows that count come first, and the others are left out of what is returned
        return weights.linears[-1](normed.index_select(0, self._live_first))[: self.rows]

    def room_for_weights(self, attention: int) -> Float[Tensor, "R H S"]:
        """See `DecoderSteps.room_for_weights`."""
        keys = self._source.length if attention % 2 else self.length + 1
        return torch.zeros(self.rows, self._weights.heads, keys)

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        """Row r goes on from what row `index[r]` had, of the same sentence; as many rows as before.

        The first that goes on from a row is left where that row is, and the others go to rows that nobody goes on from.
        """
        shape = len(self._taken), self.rows_per_sentence
        parents = self._live[index].view(shape)
        # (B, rows, rows)
        repeated = (parents.unsqueeze(2) == parents.unsqueeze(1)).tril(-1).any(2)
        free = (self._live.view(*shape, 1) != parents.unsqueeze(1)).all(2)
        if bool(free.any()):
            # a sentence has as many of the one as of the other
            new, old = self._live.view(shape)[free], parents[repeated]
            _copy(self._cache[: self.length], 3, old, new)
            parents[repeated] = new
        self._within = parents % self.rows_per_sentence
        self._find_rows()

    def drop(self, keep: Int[Tensor, "B2"]) -> None:
        """Only the sentences at these places stay."""
        kept: list[int] = keep.tolist()
        self.sentences = [self.sentences[place] for place in kept]
        self._taken, self._within = [self._taken[place] for place in kept], self._within[keep]
        if (places := self._places_for(len(kept))) < self._places:
            self._move(places)
        self._find_rows()

    def keys_and_values(self) -> list[tuple[Tensor, Tensor]]:
        """What the cache holds of each layer, as PyTorch's step keeps it: (R, H, T, K) each, in copies."""
        held = self._cache[: self.length].index_select(3, self._live)
        held = held.view(*held.shape[:4], self._weights.heads, -1).permute(1, 2, 3, 4, 0, 5).float()
        return [(layer[0].contiguous(), layer[1].contiguous()) for layer in held]

    def _attend_to_self(self, made: BFloat16[Tensor, "R E"], layer: int, seen: Tensor | None) -> Tensor:
        weights, here = self._weights, self.length
        rows, heads, head = len(made), weights.heads, weights.width // weights.heads
        # (R, 3 H K) -> (3, R, H K)
        three = made.view(rows, 3, weights.width).transpose(0, 1)
        self._cache[here, layer] = three[1:]
        # (T, 2, R, H K) -> (2, R, H, T, K)
        held = self._cache[: here + 1, layer].view(here + 1, 2, rows, heads, head).permute(1, 2, 3, 0, 4)
        query = three[0].view(rows, heads, 1, head)
        mixed = attend(query, held, None, weights.betas[2 * layer])
        if seen is not None:
            # (R, H, 1, T) -> (R, H, T)
            found = attention_weights(query, held[0], None, weights.betas[2 * layer]).squeeze(2)
            seen.copy_(found.index_select(0, self._live))
        return mixed.flatten(1)

    def _attend_to_source(self, query: BFloat16[Tensor, "R D"], layer: int, seen: Tensor | None) -> Tensor:
        beta = self._weights.betas[2 * layer + 1]
        if seen is not None:
            seen.copy_(self._source.weights(query, layer, beta).index_select(0, self._live))
        return self._source.attend(query, layer, beta)

    def _places_for(self, sentences: int) -> int:
        unit = self._unit
        while unit > self._least and 2 * sentences <= unit:
            unit //= 2
        return -(-sentences // unit) * unit

    def _move(self, places: int) -> None:
        """The sentences to the first of so many places: only those move that are behind."""
        free = sorted(set(range(places)).difference(self._taken), reverse=True)
        moves = {place: free.pop() for place in self._taken if place >= places}
        if moves:
            old, new = torch.tensor(list(moves.items())).unbind(1)
            self._source.move(moves)
            _copy(self._cache[: self.length], 3, self._rows_of(old), self._rows_of(new))
        self._taken = [moves.get(place, place) for place in self._taken]
        self._places = places
        self._source.keep(places)
        self._cache = self._cache[..., : places * self.rows_per_sentence, :]

    def _rows_of(self, places: Int[Tensor, "N"]) -> Int[Tensor, "R"]:
        return (places[:, None] * self.rows_per_sentence + torch.arange(self.rows_per_sentence)).flatten()

    def _find_rows(self) -> None:
        """Where the rows of the sentences are, and the same with as many others behind them as there are places."""
        places = torch.tensor(self._taken, dtype=torch.int64).unsqueeze(1)
        self._live = (places * self.rows_per_sentence + self._within).flatten()
        self._live_first = F.pad(self._live, (0, self._places * self.rows_per_sentence - len(self._live)))

    def _make_room(self, positions: int) -> None:
        """For so many positions."""
        weights, rows = self._weights, self._places * self.rows_per_sentence
        cache = torch.empty(positions, weights.layers, 2, rows, weights.width, dtype=torch.bfloat16)
        if self.length:
            cache[: self.length] = self._cache
        self._cache = cache


def _copy(held: Tensor, dim: int, old: Int[Tensor, "N"], new: Int[Tensor, "N"]) -> None:
    """From the old to the new places along a dimension, none of which is an old one too."""
    # PyTorch moves one element after the other; the widest take two thirds of the time
    wide = held.view(torch.complex128) if held.shape[-1] % 8 == 0 else held
    wide.index_copy_(dim, new, wide.index_select(dim, old))
