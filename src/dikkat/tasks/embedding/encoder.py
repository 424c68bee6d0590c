"""An imported sentence encoder as a source of vectors; the torch engine alone computes it."""

from __future__ import annotations

from functools import partial

from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import EncoderConfig, first_complaint
from dikkat.models.factory import Factory
from dikkat.models.sentence_encoder import SentenceEncoder
from dikkat.nn.pooling import MeanPooling
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.torch_engine.texts import Hidden, TorchEncoder
from dikkat_runtime.engine.choose import EngineRequest, choose_engine
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.embedder import TextReading, longest_text
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer


def open_encoder(request: EngineRequest) -> tuple[TorchEncoder, TextReading]:
    """Return the engine of an imported encoder, pooled as its makers did, and its way of reading.

    Raises `UsageError` for the native engine, and `MissingInputError` or `DataError` naming the file.
    """
    where, run = find_device(request.device), RunDirectory(request.run)
    config = run_config(dict(request.config), str(run.config))
    try:
        encoder_config = EncoderConfig.model_validate(request.config.get("encoder", {}))
    except ValidationError as error:
        raise UsageError("{config}: encoder.{complaint}", run.config, first_complaint(error)) from None
    choice = choose_engine(request)
    model = build_checked(run, config.model, partial(Factory(config.model).sentence_encoder, encoder_config)).eval()
    load_weights(model, run)
    tokenizer = ForeignTokenizer.load(run.tokenizer, config.model.vocab_size)
    longest = longest_text(run.path, config.model_dump(), encoder_config.max_length, special=tokenizer.frame_size)
    pooling = _sentence_pooling(model, encoder_config)
    reading = TextReading(
        encode=tokenizer.encode_batch,
        frame=lambda ids: tokenizer.framed(ids[:longest]),
        longest=longest,
        labels=tokenizer.labels,
    )
    return TorchEncoder(model.to(where), pooling, why_not_native=choice.shown_reason), reading


def _sentence_pooling(model: SentenceEncoder, encoder_config: EncoderConfig) -> Hidden:
    mean = MeanPooling()

    def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
        if encoder_config.pooling == "mean":
            vectors: Tensor = mean(hidden, mask)
        else:
            vectors = hidden[:, 0] if encoder_config.pooling == "first" else model.summary(hidden)
        return F.normalize(vectors, dim=-1) if encoder_config.normalize else vectors

    return pooled
