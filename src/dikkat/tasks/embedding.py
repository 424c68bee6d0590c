"""The module of an imported sentence encoder, its torch engine, and files of vectors."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import EncoderConfig, RunConfig, first_complaint
from dikkat.explain.pictures import check_format
from dikkat.models.classifier import SentenceEncoder
from dikkat.models.factory import Factory
from dikkat.nn.pooling import MaxPooling, position_weights, weighted_sum
from dikkat.run_directory import RunDirectory
from dikkat.torch_engine.texts import Hidden, TorchTexts
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.tasks.embedder import Vector, tsv_line


def new_encoder(run: RunDirectory, config: RunConfig) -> SentenceEncoder:
    """Build the model of an imported encoder with random weights. Raises `UsageError` for settings that fit none."""
    return Factory(config.model).sentence_encoder(_settings_of(run))


def encoder_engine(model: SentenceEncoder, run: RunDirectory, why_not_native: str) -> TorchTexts:
    """Return the torch engine of an imported encoder, pooled as its makers did."""
    settings = _settings_of(run)
    pooling = _sentence_pooling(model, settings)
    engine = TorchTexts(model, model, pooling, why_not_native=why_not_native, where=str(run.weights))
    if settings.dense:
        engine.width = settings.dense[-1][0]
    return engine


def _settings_of(run: RunDirectory) -> EncoderConfig:
    try:
        return EncoderConfig.model_validate(run.read_config().get("encoder", {}))
    except ValidationError as error:
        raise UsageError("encoder.{complaint}", first_complaint(error)) from None


def _sentence_pooling(model: SentenceEncoder, encoder_config: EncoderConfig) -> Hidden:
    way = encoder_config.pooling

    def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
        if way in ("first", "pooler"):
            vectors = hidden[:, 0] if way == "first" else model.summary(hidden)
        else:
            vectors = MaxPooling()(hidden, mask) if way == "max" else weighted_sum(position_weights(way, mask), hidden)
        vectors = model.dense(vectors)
        return F.normalize(vectors, dim=-1) if encoder_config.normalize else vectors

    return pooled


def write_vectors(path: Path, vectors: Sequence[Vector], of_tokens: bool) -> None:
    """Write the file whole, or leave it as it was. Raises `UsageError`, `DiskError` or `CannotCreateError`."""
    check_format(path, WRITERS)
    write_atomically(path, WRITERS[path.suffix](vectors, of_tokens))


def _npz(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    arrays = {
        "vectors": np.stack([vector.values for vector in vectors]) if vectors else np.zeros((0, 0), np.float32),
        "lines": np.array([vector.line for vector in vectors], dtype=np.int64),
    }
    if of_tokens:
        arrays["pieces"] = np.array([vector.text for vector in vectors], dtype=np.str_)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _tsv(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    return "".join(tsv_line(vector, of_tokens) + "\n" for vector in vectors).encode()


def _jsonl(vectors: Sequence[Vector], of_tokens: bool) -> bytes:
    name = "piece" if of_tokens else "text"
    return "".join(
        f'{{"line": {vector.line}, "{name}": {json.dumps(vector.text, ensure_ascii=False)}, '
        f'"vector": [{", ".join(map(str, vector.values))}]}}\n'
        for vector in vectors
    ).encode()


WRITERS: dict[str, Callable[[Sequence[Vector], bool], bytes]] = {".npz": _npz, ".tsv": _tsv, ".jsonl": _jsonl}
