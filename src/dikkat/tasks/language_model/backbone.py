"""Use a language model as a source of vectors."""

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
    """Return the states before the output matrix of the language model in `run`.

    A token of a causal model sees only the tokens before it. The vector of a line is the mean.
    """
    trained = LanguageModel.load(run.path)
    tokenizer = trained.tokenizer
    before = [BOS_ID] if isinstance(tokenizer, Tokenizer) else []
    longest = longest_text(trained.config, trained.context, special=len(before))

    def hidden(tokens: Tensor, mask: Tensor) -> Tensor:
        seen = key_mask(mask)
        if trained.model.objective == "causal":
            seen = seen & causal_mask(tokens.shape[1])
        return trained.model.hidden(tokens, seen)

    return Backbone(
        model=trained.model,
        stack="decoder",
        encode=tokenizer.encode,
        read=lambda ids: [*before, *ids[:longest]],
        longest=longest,
        pieces=tokenizer.labels,
        width=trained.config.model.model_dim,
        hidden=hidden,
        pooled=MeanPooling(),
    )
