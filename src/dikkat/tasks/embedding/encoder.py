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
from dikkat.tasks.common.engines import choose_engine
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.torch_engine.texts import Hidden, TorchEncoder
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.embedder import Embedder, TextReading, longest_text
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer


def encoder_embedder(run: RunDirectory, engine: EngineName, precision: PrecisionName, device: Device) -> Embedder:
    """An imported encoder, pooled as its makers did.

    Raises `UsageError` for the native engine, and `MissingInputError` or `DataError` naming the file.
    """
    where, settings = find_device(device), run.read_config()
    config = run_config(settings, str(run.config))
    try:
        encoder_config = EncoderConfig.model_validate(settings.get("encoder", {}))
    except ValidationError as error:
        raise UsageError("{config}: encoder.{first_complaint}").fill(run.config, first_complaint(error)) from None
    choice = choose_engine(run, settings, engine, precision, device)
    model = build_checked(run, config.model, partial(Factory(config.model).sentence_encoder, encoder_config)).eval()
    load_weights(model, run)
    tokenizer = ForeignTokenizer.load(run.tokenizer, config.model.vocab_size)
    longest = longest_text(run.path, config.model_dump(), encoder_config.max_length, special=tokenizer.frame_size)
    computing = TorchEncoder(
        model.to(where), _sentence_pooling(model, encoder_config), why_not_native=choice.shown_reason
    )
    reading = TextReading(
        encode=tokenizer.encode_batch,
        frame=lambda ids: tokenizer.framed(ids[:longest]),
        longest=longest,
        labels=tokenizer.labels,
    )
    return Embedder(computing, reading)


def _sentence_pooling(model: SentenceEncoder, encoder_config: EncoderConfig) -> Hidden:
    mean = MeanPooling()

    def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
        if encoder_config.pooling == "mean":
            vectors: Tensor = mean(hidden, mask)
        else:
            vectors = hidden[:, 0] if encoder_config.pooling == "first" else model.summary(hidden)
        return F.normalize(vectors, dim=-1) if encoder_config.normalize else vectors

    return pooled
