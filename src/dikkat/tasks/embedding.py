"""An imported sentence encoder as a source of vectors; the torch engine alone computes it."""

import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import EncoderConfig, first_complaint
from dikkat.explain.pictures import check_format
from dikkat.models.classifier import SentenceEncoder
from dikkat.models.factory import Factory
from dikkat.nn.pooling import MeanPooling
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.torch_engine.texts import Hidden, TorchEncoder
from dikkat_runtime.engine.choose import EngineRequest, choose_engine
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.tasks.embedder import TextReading, Vector, longest_text, tsv_line
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
