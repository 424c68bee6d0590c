"""The attention of a translator on one sentence: for what it writes, or for any translation that is put to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch

from dikkat.config import RunConfig
from dikkat.decoding.options import DecodingOptions
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import pad_sources
from dikkat.errors import DataError
from dikkat.explain.attention_map import AttentionMap, Kind, Stack
from dikkat.explain.sentence_maps import BEGIN, END, SentenceMaps, axes_of, require_place
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat.text.tokenizer import BOS_ID, Tokenizer

MOST_WEIGHTS = 2**28
"""Of one sentence, 1 GiB in float32: two layers of four heads on 5,000 tokens."""

Wanted = Callable[[MapName], bool]


class Reader(Protocol):
    """What is needed of a translator."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    config: RunConfig

    def encode(self, line: str) -> list[int]:
        """Source ids of a line, without end mark."""
        ...


def _everything(name: MapName) -> bool:
    return True


class Attending:
    """Records the attention maps of `translator`; fused kernels stay on, only what is `wanted` is computed again.

    Decoder rows carry the token that is fed in, `<bos>` first. Every method raises `DataError` for an empty text, and
    for one so long that the wanted maps hold more than `MOST_WEIGHTS` weights.
    """

    def __init__(self, translator: Reader) -> None:
        self.translator = translator
        modules = translator.model.named_modules()
        self._heads = {name_of(path): part.num_heads for path, part in modules if isinstance(part, MultiHeadAttention)}

    def choose(self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None) -> Wanted:
        """What is `wanted` for maps of one attention, layer and head from 0 (None: every one).

        Raises `UsageError`, which counts from 1, with the choices that this model has.
        """
        places = [
            (cast(Stack, name.stack), name.kind, name.layer, number)
            for name, heads in self._heads.items()
            for number in range(heads)
        ]
        require_place(places, stack, kind, layer, head)
        return lambda name: (name.stack, name.kind) == (stack, kind) and layer in (None, name.layer)

    def greedy(self, text: str, wanted: Wanted = _everything) -> SentenceMaps:
        """The maps of the translation that takes the likeliest token at each step."""
        return self.hypotheses(text, DecodingOptions(), wanted)[0]

    def hypotheses(self, text: str, options: DecodingOptions, wanted: Wanted = _everything) -> tuple[SentenceMaps, ...]:
        """The maps of each hypothesis that decoding by `options` returns, best first, all its tokens read at once."""
        source = self._source(text)
        ids, mask = pad_sources([source], torch.device("cpu"))
        (found,) = batch_decoder(self.translator.model, options)(ids, mask, [0])
        texts = self.translator.tokenizer.decode_batch([hypothesis.tokens for hypothesis in found])
        return tuple(
            self._record(text, source, " ".join(output.split("\n")), hypothesis.tokens, wanted)
            for output, hypothesis in zip(texts, found, strict=True)
        )

    def forced(self, text: str, target: str, wanted: Wanted = _everything) -> SentenceMaps:
        """The maps while reading `target`, whatever the model itself would write; an empty one has the row `<bos>`."""
        source, output = self._source(text), target.strip()
        written = self.translator.tokenizer.encode(output, self.translator.config.data.target_language)
        return self._record(text, source, output, written, wanted)

    def _source(self, text: str) -> list[int]:
        source = self.translator.encode(text)
        if not source:
            raise DataError("there is nothing to attend to in an empty text; give a few words")
        return source

    def _record(
        self, text: str, source: Sequence[int], output: str, target: Sequence[int], wanted: Wanted
    ) -> SentenceMaps:
        reads = (*self.translator.tokenizer.pieces(source), END)
        writes = (BEGIN, *self.translator.tokenizer.pieces(target))
        self._require_room(len(reads), len(writes), wanted)
        ids, mask = pad_sources([source], torch.device("cpu"))
        model = self.translator.model
        with torch.inference_mode(), record_attention(model, wanted) as recorded:
            model.decode(torch.tensor([[BOS_ID, *target]]), model.encode(ids, mask), mask)
        maps = []
        for name, (weights,) in recorded.items():
            stack = cast(Stack, name.stack)
            queries, keys = axes_of(stack, name.kind, reads, writes)
            for head, each in enumerate(weights[0].float().numpy()):
                maps.append(AttentionMap(each, queries, keys, stack, name.layer, head, name.kind))
        return SentenceMaps(text.strip(), output, reads, writes, tuple(maps))

    def _require_room(self, reads: int, writes: int, wanted: Wanted) -> None:
        sizes = [
            heads * rows * columns
            for name, heads in self._heads.items()
            if wanted(name)
            for rows, columns in [axes_of(cast(Stack, name.stack), name.kind, reads, writes)]
        ]
        if sum(sizes) > MOST_WEIGHTS:
            raise DataError(
                f"the maps of {reads:,} source and {writes:,} output tokens hold {sum(sizes):,} weights, over the limit"
                f" of {MOST_WEIGHTS:,}; choose a kind and one layer, or shorten the text"
            )
