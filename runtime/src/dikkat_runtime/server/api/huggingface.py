"""The interface of Hugging Face inference: one address for each model, whose kind decides the answer."""

from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.api.tei import VECTORS, answered, classified, embed_texts, ranked_labels
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import HUGGING_FACE, json_response
from dikkat_runtime.server.endpoint import POST, Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import TEXTS, either, fields, list_of
from dikkat_runtime.server.translation import translate_texts
from dikkat_runtime.server.writing import begin, read_writing

_DEFAULT_TOKENS = 100


async def infer(call: Call) -> Response:
    """Translate, classify, mark or continue texts, or answer numbers."""
    model = call.catalog.named(call.request.path_params["model"])
    texts = call.fields.texts("inputs")
    call.count_characters(texts)
    if model.kind == "translator":
        translated = await translate_texts(call, model, texts, TextOptions())
        return json_response([{"translation_text": translation.text} for translation in translated])
    if model.kind == "classifier":
        return json_response(await _classified(call, model, texts))
    if model.kind in ("tagger", "regressor"):
        rows = await answered(call, model, texts, ("entity_group", "word"))
        is_one = model.kind == "tagger" and isinstance(call.fields.raw("inputs"), str)
        return json_response(rows[0] if is_one else rows)
    return json_response(await _written(call, model, texts))


async def _classified(call: Call, model: ServedModel, texts: list[str]) -> list[list[dict[str, Any]]]:
    count = call.fields.section("parameters").whole("top_k", 5, 1, 1 << 20)
    return [ranked_labels(classification)[:count] for classification in await classified(call, model, texts)]


async def _written(call: Call, model: ServedModel, texts: list[str]) -> list[dict[str, Any]]:
    if len(texts) != 1:
        raise RequestError("invalid", "inputs must be one text for a language model", param="inputs")
    if call.fields.flag("stream", False):
        raise RequestError("invalid", "stream is not supported here; /v1/completions streams", param="stream")
    parameters = call.fields.section("parameters")
    options, stop = read_writing(call, parameters, "max_new_tokens", _DEFAULT_TOKENS)
    piece = await (await begin(call, model, texts[0], options, stop)).whole()
    before = texts[0] if parameters.flag("return_full_text", False) else ""
    return [{"generated_text": before + piece.text}]


async def features(call: Call) -> Response:
    """Return a vector for each text; for one text, still a list of one."""
    model = call.catalog.named(call.request.path_params["model"])
    texts = call.fields.texts("inputs")
    normalize = call.fields.section("parameters").flag("normalize", call.fields.flag("normalize", False))
    prompt = call.fields.section("parameters").optional_text("prompt_name")
    vectors = await embed_texts(call, model, texts, normalize, prompt)
    return json_response([vector.tolist() for vector in vectors])


_BODY = fields({"inputs": TEXTS}, parameters=fields())
_ROWS = list_of(either(fields(), list_of(fields())))
_OF = HUGGING_FACE

ENDPOINTS = [
    Endpoint(POST, "/models/{model}", infer, _OF, "Translate, classify or write.", _ROWS, _BODY),
    Endpoint(
        POST, "/models/{model}/pipeline/feature-extraction", features, _OF, "Turn texts into vectors.", VECTORS, _BODY
    ),
]
"""The routes of Hugging Face's inference clients."""
