"""Record the attention of a translator on one sentence and a translation of it."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dikkat.explain.attention_map import BEGIN, END, SentenceMaps
from dikkat.explain.head_analysis.importance import occlusion
from dikkat.tasks.common.attention_recorder import AttentionRecorder, Wanted, everything, require_short
from dikkat.torch_engine.stepper import pad_sources
from dikkat.torch_engine.strategies import batch_decoder
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.translator import Translator

MAX_OCCLUDED = 64
"""Limit of the source tokens for occlusion, which takes one pass for each token."""


class Attending(AttentionRecorder):
    """Record the attention maps of `translator`.

    Fused kernels stay on: only the maps that are `wanted` are computed a second time, as matrices.
    Decoder rows carry the token that is fed in, `<bos>` first. Every method raises `DataError` for an empty text, and
    for one so long that the wanted maps hold more than `MAX_WEIGHTS` weights. With `occluding`, the occlusion of each
    source token comes with maps of cross-attention, for sources of at most `MAX_OCCLUDED` tokens.
    """

    def __init__(self, translator: Translator, *, occluding: bool = False) -> None:
        super().__init__(translator.model)
        self.translator, self._occluding = translator, occluding

    def greedy(self, text: str, wanted: Wanted = everything) -> SentenceMaps:
        """Return the maps of the greedy translation of `text`."""
        return self.hypotheses(text, DecodingOptions(), wanted)[0]

    def hypotheses(self, text: str, options: DecodingOptions, wanted: Wanted = everything) -> tuple[SentenceMaps, ...]:
        """Return the maps of each hypothesis that decoding by `options` returns, best first.

        All tokens of a hypothesis are read in one pass.
        """
        source = self._source(text)
        ids, mask = self._padded(source)
        options = self.translator.defaults.resolved(options)
        (hypotheses,) = batch_decoder(self.translator.model, options)(ids, mask, [0])
        texts = self.translator.target_tokenizer.decode_batch([hypothesis.tokens for hypothesis in hypotheses])
        return tuple(
            self._record(text, source, " ".join(output.split("\n")), hypothesis.tokens, wanted)
            for output, hypothesis in zip(texts, hypotheses, strict=True)
        )

    def forced(self, text: str, target: str, wanted: Wanted = everything) -> SentenceMaps:
        """Return the maps while the decoder reads `target`; an empty `target` has the one row `<bos>`."""
        source, output = self._source(text), target.strip()
        written = self.translator.target_tokenizer.encode(output, self.translator.target_language)
        require_short(len(written))
        return self._record(text, source, output, written, wanted)

    def _source(self, text: str) -> list[int]:
        source = self.translator.encode(text)
        if not source:
            raise DataError("there is nothing to attend to in an empty text; give a few words")
        require_short(len(source))
        return source

    def _padded(self, source: Sequence[int]) -> tuple[Tensor, Tensor]:
        model = self.translator.model
        return pad_sources([source], model.output_weight.device, add_eos=model.add_source_eos)

    def _record(
        self, text: str, source: Sequence[int], output: str, target: Sequence[int], wanted: Wanted
    ) -> SentenceMaps:
        reads = (*self.translator.tokenizer.labels(source), *([END] if self.translator.model.add_source_eos else ()))
        ids, mask = self._padded(source)
        model = self.translator.model
        # the decoder reads and looks at the prefix of every target, too
        forced = () if model.target_prefix is None else (model.target_prefix,)
        writes = (BEGIN, *self.translator.target_tokenizer.labels((*forced, *target)))

        fed = torch.tensor([BOS_ID, *target, EOS_ID], device=ids.device)

        def compute() -> None:
            model.decode(fed[None, :-1], model.encode(ids, mask), mask)

        maps = self.record(compute, reads, writes, wanted)
        occluded = None
        if self._occluding and len(reads) <= MAX_OCCLUDED and any(a.kind == "cross" for a in maps):
            # what is written in any case depends on no token of the source
            occluded = np.concatenate((np.zeros((model.forced, len(reads))), occlusion(model, ids[0], fed)))
        return SentenceMaps(text.strip(), output, reads, writes, maps, occluded, model.forced)
