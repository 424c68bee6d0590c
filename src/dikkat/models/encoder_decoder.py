"""The encoder-decoder Transformer: ids in, logits out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.kernels.linear import Products, linear
from dikkat.nn.blocks import CrossAttendingBlock, EncoderBlock, PositionedEncoderBlock
from dikkat.nn.cache import CrossAttentionCache, DecoderCache, SelfAttentionCache
from dikkat.nn.layers import Dropout, TokenEmbedding, training_products
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.named_positions import Positions
from dikkat_runtime.special_tokens import BOS_ID

# A stack of encoder blocks.


class Encoder(nn.Module):
    """Run encoder blocks, then `final_norm`: a LayerNorm for pre-norm blocks, `Identity` for post-norm ones."""

    def __init__(self, blocks: Sequence[EncoderBlock], final_norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    @property
    def adds_positions(self) -> bool:
        """Return whether a block adds positions to its input."""
        return any(isinstance(block, PositionedEncoderBlock) for block in self.blocks)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        caches: Sequence[SelfAttentionCache] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """Return the hidden states (B, S, D).

        With `caches`, one a block, the positions of `x` follow those read before.

        Without them, `position_ids` may be the positions of `x` where some were left out, if the attention takes them.
        """
        for block, cache in zip(self.blocks, caches or repeat(None, len(self.blocks)), strict=True):
            x = block(x, mask, cache, position_ids)
        return self.final_norm(x)


# A stack of decoder blocks, for a whole target or one step at a time.


class Decoder(nn.Module):
    """Run decoder blocks, then `final_norm`: a LayerNorm for pre-norm blocks, `Identity` for post-norm ones."""

    def __init__(self, blocks: Sequence[CrossAttendingBlock], final_norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], memory_mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return hidden states (B, T, D) of all positions, under the causal mask (fault F36)."""
        mask = causal_mask(x.shape[1], device=x.device)
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask)
        return self.final_norm(x)

    def read_source(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"]
    ) -> tuple[list[CrossAttentionCache], Bool[Tensor, "B 1 1 S"]]:
        """Return keys and values of the source for every layer, and the mask of where they may be attended to."""
        cross = [cast(CrossAttendingBlock, block).cross_attention.project_memory(memory) for block in self.blocks]
        return cross, key_mask(source_mask)

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], rows_per_sentence: int = 1
    ) -> DecoderCache:
        """Project keys and values of the source once for every layer, and return the cache."""
        cross, mask = self.read_source(memory, source_mask)
        for layer in cross:
            # every step multiplies by these: laid out by head once, not copied at each step
            layer.key, layer.value = layer.key.contiguous(), layer.value.contiguous()
        return DecoderCache(cross, mask, rows_per_sentence)

    def step(self, x: Float[Tensor, "R 1 D"], cache: DecoderCache) -> Float[Tensor, "R 1 D"]:
        """Return the hidden states (R, 1, D) of one more position of R hypotheses."""
        for block, own, cross in zip(self.blocks, cache.layers, cache.cross_attention, strict=True):
            x = cast(CrossAttendingBlock, block).step(x, own, cross, cache.mask)
        return self.final_norm(x)


class EncoderDecoder(nn.Module):
    """Hold embeddings, encoder, decoder and output matrix (Vaswani et al. 2017, figure 1).

    `source_embedding` and `target_embedding` may be one module; `output_weight` (V, D) may be the target's matrix, and
    V is then its vocabulary's. `positions` and `embedding_norm` serve both sides, unless the
    target has its own.
    `add_source_eos` says whether its sources end with `<eos>`, which stands in them when they come here. Every target
    begins with the token `target_prefix`, where there is one, after `<bos>`; it does not stand in what comes here.
    """

    products: Products = "exact"
    """How training multiplies by the output matrix; see `nn.linear.set_products`."""

    def __init__(
        self,
        source_embedding: TokenEmbedding,
        target_embedding: TokenEmbedding,
        positions: Positions,
        embedding_norm: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        output_weight: nn.Parameter,
        dropout: float = 0.0,
        output_bias: nn.Parameter | None = None,
        add_source_eos: bool = True,
        target_prefix: int | None = None,
        target_positions: Positions | None = None,
        target_embedding_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.positions = positions
        self.embedding_norm = embedding_norm
        # registered only where it is one of its own, so that no weight has two names
        self.target_positions = target_positions
        self.target_embedding_norm = target_embedding_norm
        self.encoder = encoder
        self.decoder = decoder
        self.output_weight = output_weight
        self.output_bias = output_bias
        self.add_source_eos = add_source_eos
        self.target_prefix = target_prefix
        self.dropout = Dropout(dropout)

    @property
    def positions_of_target(self) -> Positions:
        """Return what gives the target its positions: that of the source, unless it has its own."""
        return self.positions if self.target_positions is None else self.target_positions

    @property
    def embedding_norm_of_target(self) -> nn.Module:
        """Return the norm of the target's embeddings: that of the source, unless it has its own."""
        return self.embedding_norm if self.target_embedding_norm is None else self.target_embedding_norm

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits (B, T, V) of the token after each target position (teacher forcing)."""
        return self.project(self.decode(target, self.encode(source, source_mask), source_mask))

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the memory (B, S, D) of the source; `source_mask` is True at real tokens."""
        x = self.dropout(self.embedding_norm(self.positions(self.source_embedding(source))))
        return self.encoder(x, key_mask(source_mask))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden states (B, T, D) of all target positions; `project` turns them into logits."""
        target = self.with_prefix(target)
        x = self.dropout(self.embedding_norm_of_target(self.positions_of_target(self.target_embedding(target))))
        return self.decoder(x, memory, key_mask(source_mask))[:, self.forced :]

    @property
    def forced(self) -> int:
        """Return how many tokens every target begins with after `<bos>`: 0, or 1 with a `target_prefix`."""
        return int(self.target_prefix is not None)

    def with_prefix(self, target: Int[Tensor, "B T"]) -> Int[Tensor, "B T2"]:
        """Return the ids that the decoder reads: `<bos>` before a target in which the prefix stands for `<bos>`."""
        if self.target_prefix is None:
            return target
        return torch.cat((torch.full_like(target[:, :1], BOS_ID), self._decoder_inputs(target)), dim=1)

    def _decoder_inputs(self, tokens: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return tokens if self.target_prefix is None else tokens.masked_fill(tokens == BOS_ID, self.target_prefix)

    def decoder_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that no source passes through: a backward pass ends them before the encoder's."""
        shared = (self.source_embedding, self.positions, self.embedding_norm, self.encoder)
        of_source = {id(parameter) for part in shared for parameter in part.parameters()}
        own = [*self.target_embedding.parameters(), *self.decoder.parameters(), self.output_weight]
        own += [] if self.output_bias is None else [self.output_bias]
        return list({id(parameter): parameter for parameter in own if id(parameter) not in of_source}.values())

    @contextmanager
    def watched_memory(self, on_gradient: Callable[[], None]) -> Iterator[None]:
        """Call `on_gradient` when a backward pass in the body has the gradient of the memory that was encoded there.

        All gradients of `decoder_parameters` are there by then: autograd goes back in the order of the calls, and the
        memory is encoded before the decoder reads a target.
        """

        def watch(encoder: nn.Module, inputs: object, memory: Tensor) -> None:
            if memory.requires_grad:
                memory.register_hook(lambda gradient: on_gradient())

        with self.encoder.register_forward_hook(watch):
            yield

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Return the logits of hidden states."""
        return linear(hidden, self.output_weight, self.output_bias, products=training_products(self))

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> DecoderCache:
        """Begin decoding: the cross-attention of each sentence is projected once, for all its hypotheses.

        With a `target_prefix` the cache holds `<bos>`, in whose place a step is fed the prefix.
        """
        cache = self.decoder.start_cache(memory, source_mask, rows_per_sentence)
        if self.target_prefix is not None:
            self._read(torch.full((len(memory) * rows_per_sentence,), BOS_ID, device=memory.device), cache)
        return cache

    def step(self, tokens: Int[Tensor, "R"], cache: DecoderCache) -> Float[Tensor, "R V"]:
        """Return the logits (R, V) of the next token. `tokens` are at position `cache.length`, which grows by 1."""
        return self.project(self.step_states(tokens, cache))

    def step_states(self, tokens: Int[Tensor, "R"], cache: DecoderCache) -> Float[Tensor, "R D"]:
        """Return the hidden states (R, D) of the next token, which `project` turns into logits; see `step`."""
        return self._read(self._decoder_inputs(tokens), cache)

    def _read(self, tokens: Int[Tensor, "R"], cache: DecoderCache) -> Float[Tensor, "R D"]:
        # (R,) -> (R, 1, D) -> (R, D)
        embedded = self.positions_of_target(self.target_embedding(tokens[:, None]), offset=cache.length)
        return self.decoder.step(self.dropout(self.embedding_norm_of_target(embedded)), cache)[:, 0]
