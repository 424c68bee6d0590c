"""The interface of OpenAI: the list of models, and embeddings; generated texts are in `openai_text`."""

import base64
from typing import Any

import numpy as np
from starlette.responses import Response

from dikkat_runtime.server.api.embedding import embed_texts, embedding_model
from dikkat_runtime.server.api.openai_text import ENDPOINTS as TEXT_ENDPOINTS
from dikkat_runtime.server.api.schemas import NUMBER, TEXT, TEXTS, WHOLE, either, fields, list_of, words
from dikkat_runtime.server.api.tei import cut_vector, input_texts
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OPENAI, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError


async def models(call: Call) -> Response:
    """Return every model that is served."""
    return json_response({"object": "list", "data": [_shown(model) for model in call.catalog.models]})


async def model(call: Call) -> Response:
    """Return one model."""
    return json_response(_shown(call.catalog.named(call.request.path_params["model"])))


async def embeddings(call: Call) -> Response:
    """Return a vector of length 1 for each text."""
    fields = call.fields
    served = embedding_model(call, fields.text("model"))
    texts = input_texts(call, "input")
    if not all(text for text in texts):
        raise RequestError("invalid", "input holds an empty text", param="input")
    as_base64 = fields.choice("encoding_format", "float", ("float", "base64")) == "base64"
    size = fields.whole("dimensions", 0, 1, 1 << 20)
    vectors = await embed_texts(call, served, texts, normalize=True)
    if size > len(vectors[0]):
        raise fields.wrong("dimensions", f"must be at most {len(vectors[0])}")
    if size:
        vectors = [cut_vector(vector, size, normalize=True) for vector in vectors]
    rows = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if as_base64 else vector.tolist()}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(served.count_tokens(texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": rows, "model": served.name, "usage": usage})


def _base64(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode("ascii")


def _shown(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "dikkat"}


_MODEL = fields(("id", "object", "created", "owned_by"), id=TEXT, object=TEXT, created=WHOLE, owned_by=TEXT)
_VECTOR = fields(("object", "index", "embedding"), object=TEXT, index=WHOLE, embedding=either(TEXT, list_of(NUMBER)))
_VECTORS = fields(("object", "data", "model"), object=TEXT, data=list_of(_VECTOR), model=TEXT)
_BODY = fields(("input", "model"), input=TEXTS, model=TEXT, encoding_format=words("float", "base64"), dimensions=WHOLE)

ENDPOINTS = [
    Endpoint(("GET",), "/v1/models", models, OPENAI, "List models.", fields(("data",), data=list_of(_MODEL))),
    Endpoint(("GET",), "/v1/models/{model}", model, OPENAI, "Show a model.", _MODEL),
    Endpoint(("POST",), "/v1/embeddings", embeddings, OPENAI, "Turn texts into vectors.", _VECTORS, _BODY),
    *TEXT_ENDPOINTS,
]
"""The routes of OpenAI."""
