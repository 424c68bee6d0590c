"""The encoder-decoder Transformer: ids in, logits out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.decoder import Decoder
from dikkat.models.encoder import Encoder
from dikkat.models.native_coverage import Bystanders, QuantizedWeights, multiplies_in_tiles
from dikkat.models.native_decoding import DecoderParts, NativeCache
from dikkat.models.native_encoding import EncoderParts
from dikkat.native.decoder import can_step
from dikkat.native.search import Found, Marks
from dikkat.native.threads import num_threads
from dikkat.nn.cache import DecoderCache
from dikkat.nn.dropout import Dropout
from dikkat.nn.eight_bit import rounded_weights
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.few_rows import project
from dikkat.nn.masks import key_mask
from dikkat.nn.named_positions import Positions


class EncoderDecoder(nn.Module):
    """Embeddings, encoder, decoder and output matrix (Vaswani et al. 2017, figure 1).

    `source_embedding` and `target_embedding` may be one module; `output_weight` (V, D) may be its matrix. `positions`
    and `embedding_norm` serve both sides.
    """

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
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.positions = positions
        self.embedding_norm = embedding_norm
        self.encoder = encoder
        self.decoder = decoder
        self.output_weight = output_weight
        self.output_bias = output_bias
        self.dropout = Dropout(dropout)
        self.quantized: QuantizedWeights | None = None
        """Where set, what linear layers multiply by; the weights must not change any more."""

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each target position, given all positions up to it (teacher forcing)."""
        return self.project(self.decode(target, self.encode(source, source_mask), source_mask))

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Memory of the source; `source_mask` is True at real tokens."""
        x = self.dropout(self.embedding_norm(self.positions(self.source_embedding(source))))
        parts = EncoderParts(self._bystanders(), self.encoder, self.quantized)
        if parts.can_run(x):
            return parts.run(x, source_mask)
        with self._products():
            return self.encoder(x, key_mask(source_mask))

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B T D"]:
        """Hidden states of all target positions at once; `project` turns them into logits."""
        x = self.dropout(self.embedding_norm(self.positions(self.target_embedding(target))))
        with self._products():
            return self.decoder(x, memory, key_mask(source_mask))

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Logits of hidden states."""
        with self._products():
            return project(hidden, self.output_weight, self.output_bias)

    def start_cache(
        self,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B S"],
        *,
        rows_per_sentence: int = 1,
    ) -> DecoderCache:
        """Begin decoding: the cross-attention of each sentence is projected once, for all its hypotheses."""
        parts = self._decoder_parts()
        if self._steps_as_usual() and 0 not in memory.shape and parts.can_begin():
            return NativeCache(parts, memory, source_mask, rows_per_sentence)
        with self._products():
            return self.decoder.start_cache(memory, source_mask, rows_per_sentence)

    def quantize(self) -> None:
        """From now on compute with the weights rounded to eight bits, which must not change any more.

        Natively where that is possible, else by PyTorch; in bfloat16 instead where there is no native code and the
        processor has tiles for that. Only for a gradient the weights stay as they are. Raises `ValueError` for weights
        that are not finite or not on a CPU.
        """
        if self.output_weight.device.type != "cpu":
            raise ValueError(f"eight bits are for processors, but the weights are on {self.output_weight.device}")
        self.quantized = QuantizedWeights()
        token, mask = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)
        try:
            with torch.inference_mode():
                # all weights are met once, and refused here rather than in the middle of a text
                self.step(token[0], self.start_cache(self.encode(token, mask), mask))
        except ValueError:
            self.quantized = None
            raise

    def batches_at_once(self) -> int:
        """How many batches are best decoded side by side, each by a share of the threads; see `decodes_natively`.

        Natively in 32 bits, the threads had better share the weights of each step; else a thread is best alone with a
        batch. Who looks on sees one batch after the other.
        """
        with torch.inference_mode():
            if self._bystanders().are_looking() or self.output_weight.device.type != "cpu":
                return 1
        return 1 if self.quantized is None and self.decodes_natively() else num_threads()

    def sentences_at_once(self, beam_size: int) -> int:
        """How many are best decoded together; by PyTorch in tiles more, since an operator costs much before it computes
        anything: as many as have 1,024 hypotheses.
        """
        with torch.inference_mode():
            in_tiles = multiplies_in_tiles(self.quantized) and self._decoder_parts().can_begin()
        return max(128, 1024 // beam_size) if in_tiles else 128

    def is_settled(self) -> bool:
        """Whether a copy that was made before computes what this does: it was told that weights will not change, and
        has the methods of its class.
        """
        return self.quantized is not None and not self.training and self._bystanders().have_replaced_nothing()

    def decodes_natively(self) -> bool:
        """Whether a batch that is decoded now would be by native code; by PyTorch, threads get in each other's way."""
        with torch.inference_mode():
            return can_step() and self._steps_as_usual() and self._decoder_parts().can_begin()

    def _decoder_parts(self) -> DecoderParts:
        parts = self.target_embedding, self.positions, self.dropout, self.decoder, self.output_weight
        return DecoderParts(self._bystanders(), *parts, self.quantized)

    def _bystanders(self) -> Bystanders:
        make = partial(Bystanders, self)
        return make() if self.quantized is None else self.quantized.once("bystanders", make)

    def _steps_as_usual(self) -> bool:
        # a derived class may step in another way, and the native step has no norm behind the embedding, no output bias
        plain = isinstance(self.embedding_norm, nn.Identity) and self.output_bias is None
        return type(self) is EncoderDecoder and plain

    def search(
        self, cache: DecoderCache, best: int, caps: Int[Tensor, "B"], penalties: Float[Tensor, "P"], marks: Marks
    ) -> Found | None:
        """All steps of a beam search in native code, see `BeamSearch`; None where `step` must take them one by one."""
        if isinstance(cache, NativeCache) and cache.steps_natively:
            return cache.search(best, caps, penalties, marks)
        return None

    def step(self, tokens: Int[Tensor, "R"], cache: DecoderCache) -> Float[Tensor, "R V"]:
        """Logits of the next token; the position of `tokens` is the length of the cache, which grows by one."""
        if isinstance(cache, NativeCache) and cache.steps_natively:
            return cache.step(tokens)
        # (R,) -> (R, 1, D) -> (R, V)
        x = self.embedding_norm(self.positions(self.target_embedding(tokens[:, None]), offset=cache.length))
        with self._products():
            return self.project(self.decoder.step(self.dropout(x), cache)[:, 0])

    def _products(self) -> AbstractContextManager[None]:
        """How PyTorch multiplies by the weights of linear layers."""
        if self.quantized is None or torch.is_grad_enabled():
            return nullcontext()
        return rounded_weights(self.quantized.rounded)
