"""An imported sentence encoder as a source of vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import EncoderConfig, first_complaint
from dikkat.models.factory import Factory
from dikkat.models.sentence_encoder import SentenceEncoder
from dikkat.nn.pooling import MeanPooling
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.backbone import Backbone, longest_text
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.errors import UsageError


def encoder_backbone(run: RunDirectory) -> Backbone:
    """An imported encoder, pooled as its makers did."""
    settings = run.read_config()
    config = run_config(settings, str(run.config))
    try:
        around = EncoderConfig.model_validate(settings.get("encoder", {}))
    except ValidationError as error:
        raise UsageError(f"{run.config}: encoder.{first_complaint(error)}") from None
    model = build_checked(run, config.model, partial(Factory(config.model).sentence_encoder, around)).eval()
    load_weights(model, run)
    tokenizer = ForeignTokenizer.load(run.tokenizer, config.model.vocab_size)
    longest = longest_text(config, around.max_length, special=tokenizer.frame_size)
    return Backbone(
        model=model,
        stack="encoder",
        encode=tokenizer.encode,
        read=lambda ids: tokenizer.framed(ids[:longest]),
        longest=longest,
        pieces=tokenizer.labels,
        width=config.model.model_dim,
        hidden=model,
        pooled=_sentence_pooling(model, around),
    )


def _sentence_pooling(model: SentenceEncoder, around: EncoderConfig) -> Callable[[Tensor, Tensor], Tensor]:
    mean = MeanPooling()

    def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
        if around.pooling == "mean":
            vectors = mean(hidden, mask)
        else:
            vectors = hidden[:, 0] if around.pooling == "first" else model.summary(hidden)
        return F.normalize(vectors, dim=-1) if around.normalize else vectors

    return pooled
