"""A language model as a source of vectors."""

from __future__ import annotations

from torch import Tensor

from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.pooling import MeanPooling
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.backbone import Backbone, longest_text
from dikkat.tasks.language_model.language_model import LanguageModel
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer


def language_model_backbone(run: RunDirectory) -> Backbone:
    """States before the output matrix; a causal model's token knows only what stands before it. A line has the mean."""
    found = LanguageModel.load(run.path)
    tokenizer = found.tokenizer
    before = [BOS_ID] if isinstance(tokenizer, Tokenizer) else []
    longest = longest_text(found.config, found.context, special=len(before))

    def hidden(tokens: Tensor, mask: Tensor) -> Tensor:
        seen = key_mask(mask)
        if found.model.objective == "causal":
            seen = seen & causal_mask(tokens.shape[1])
        return found.model.hidden(tokens, seen)

    return Backbone(
        model=found.model,
        stack="decoder",
        encode=tokenizer.encode,
        read=lambda ids: [*before, *ids[:longest]],
        longest=longest,
        pieces=tokenizer.labels,
        width=found.config.model.model_dim,
        hidden=hidden,
        pooled=MeanPooling(),
    )
