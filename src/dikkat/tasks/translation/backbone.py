"""The encoder of a translator as a source of vectors."""

from __future__ import annotations

from dikkat.nn.pooling import MeanPooling
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.backbone import Backbone, longest_text
from dikkat.tasks.translation.translator import Translator
from dikkat_runtime.special_tokens import EOS_ID


def translator_backbone(run: RunDirectory) -> Backbone:
    """The encoder, which reads as in training: with the end mark. The vector of a line is the mean."""
    translator = Translator.load(run.path)
    longest = longest_text(translator.config, translator.config.data.max_length, special=1)
    return Backbone(
        model=translator.model,
        stack="encoder",
        encode=translator.encode,
        read=lambda ids: [*ids[:longest], EOS_ID],
        longest=longest,
        pieces=translator.tokenizer.labels,
        width=translator.config.model.model_dim,
        hidden=translator.model.encode,
        pooled=MeanPooling(),
    )
