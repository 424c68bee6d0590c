"""Compute vectors of texts, for each interface that has a route for them."""

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.native.arrays import Array
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.models import Embed, ServedModel
from dikkat_runtime.server.request_error import RequestError


def embedding_model(call: Call, name: str | None) -> ServedModel:
    """Return the model of a name, else the first one that is served; each kind gives vectors."""
    return call.catalog.named(name) if name else call.catalog.models[0]


async def embed_texts(call: Call, model: ServedModel, texts: Sequence[str], normalize: bool) -> list[Array]:
    """Return one vector (D,) for each text, of length 1 if `normalize`; that of white space is zero."""
    call.count_characters(texts)
    vectors = await call.compute(Embed(model), texts)
    return [_unit(vector) if normalize else vector for vector in vectors]


def texts_of_ids(model: ServedModel, batch: Sequence[Sequence[object]], name: str) -> list[str]:
    """Return the texts of rows of token ids. Raises `RequestError` for an entry that is not an id."""
    size = model.model.tokenizer.vocab_size
    for row in batch:
        if not all(type(token) is int and 0 <= token < size for token in row):
            raise RequestError("invalid", f"{name} must be texts, or token ids below {size}", param=name)
    return list(model.model.tokenizer.decode_batch(batch))


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
