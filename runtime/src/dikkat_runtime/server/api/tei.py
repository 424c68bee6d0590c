"""The interface of Text Embeddings Inference: predict, embed and info."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.responses import Response

from dikkat_runtime import __version__
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.server import models
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import TEI, json_response
from dikkat_runtime.server.endpoint import GET, POST, Endpoint
from dikkat_runtime.server.models import ModelTask, ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import FLAG, NUMBER, TEXT, TEXTS, WHOLE, either, fields, list_of
from dikkat_runtime.tasks.classifier import Classification
from dikkat_runtime.tasks.embedder import Text


def embedding_model(call: Call, name: str | None) -> ServedModel:
    """Return the model of a name, else the first one that is served; each kind gives vectors."""
    return call.catalog.named(name) if name else call.catalog.models[0]


async def embed_texts(
    call: Call, model: ServedModel, texts: Sequence[Text], normalize: bool, prompt: str | None = None
) -> list[Array]:
    """Return one vector (D,) for each text, of length 1 if `normalize`; that of white space is zero.

    Raises `RequestError` for a `prompt` that the model does not have.
    """
    known = model.model.reading.prompts if model.kind == "encoder" else {}
    if prompt is not None and prompt not in known:
        raise call.fields.wrong("prompt_name", f"must be one of: {', '.join(known) or 'none'}")
    call.count_characters(texts)
    vectors = await call.compute(ModelTask(model, models.embedding(prompt)), texts)
    return [_unit(vector) if normalize else vector for vector in vectors]


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


MAX_DECISIVE_WORDS = 100
"""Words that a request may have explained."""


async def predict(call: Call) -> Response:
    """Return label and probability of every class, the likeliest first; of a tagger its spans, of a regression numbers.

    With `abstain` a text has none whose label is less likely or which is unlike those of training; with `words` each
    label that a text got has so many words that decided, and by how many nats.
    """
    fields = call.fields
    texts, is_batch = _classified_texts(call)
    model = call.catalog.chosen(fields.optional_text("model"), "classifier", "tagger", "regressor")
    is_raw = fields.flag("raw_scores", False)
    call.count_characters(texts)
    if model.kind != "classifier":
        if option := next((name for name in ("raw_scores", "abstain", "words") if fields.raw(name)), None):
            raise fields.wrong(option, f"is for classifiers, and {model.name} is a {model.kind}")
        rows = await answered(call, model, texts)
        return json_response(rows if is_batch else rows[0])
    classifications = await classified(call, model, texts)
    least, most = fields.number("abstain", 0.0, 0.0, 1.0), fields.whole("words", 0, 0, MAX_DECISIVE_WORDS)
    rows = [ranked_labels(one, is_raw) if one.is_sure(least) or not least else [] for one in classifications]
    if most:
        for row, explained in zip(rows, await call.compute(ModelTask(model, models.decide), texts), strict=True):
            words = {one.label: one.strongest(most) for one in explained}
            for entry in row:
                entry |= {"words": words[entry["label"]]} if entry["label"] in words else {}
    return json_response(rows if is_batch else rows[0])


async def classified(call: Call, model: ServedModel, texts: Sequence[str]) -> list[Classification]:
    """Return one classification for each text. Raises `RequestError` for a text without words."""
    classifications: list[Classification] = await call.compute(ModelTask(model, models.answer), texts)
    if not all(classification.label for classification in classifications):
        raise RequestError("invalid", "inputs holds a text without words", param="inputs")
    return classifications


async def answered(
    call: Call, model: ServedModel, texts: Sequence[str], names: tuple[str, str] = ("label", "text")
) -> list[list[dict[str, Any]]]:
    """Return the spans of each text, whose label and text are so named, or the numbers of a regression."""
    return [
        [{"label": label, "score": number} for label, number in answer.items()]
        if isinstance(answer, dict)
        else [
            {names[0]: span.label, "score": span.probability, names[1]: span.text, "start": span.start, "end": span.end}
            for span in answer
        ]
        for answer in await call.compute(ModelTask(model, models.answer), texts)
    ]


def ranked_labels(classification: Classification, as_logarithm: bool = False) -> list[dict[str, Any]]:
    """Return score and label of every class; raw scores are logarithms, which differ from logits by a constant."""
    ranked = sorted(classification.probabilities.items(), key=lambda item: -item[1])
    return [
        {"score": math.log(max(share, 1e-30)) if as_logarithm else share, "label": label} for label, share in ranked
    ]


def _classified_texts(call: Call) -> tuple[list[str], bool]:
    """Return texts, and whether they came as a batch; a pair of texts is one text of two lines."""
    fields, value = call.fields, call.fields.raw("inputs")
    if isinstance(value, str):
        return fields.texts("inputs"), False
    if not isinstance(value, list) or not value:
        raise fields.wrong("inputs", "must be a text, a pair, or a list of lists")
    if all(isinstance(item, str) for item in value):
        return fields.within_limits("inputs", [_pair(call, value)]), False
    return fields.within_limits("inputs", [_pair(call, item) for item in value]), True


def _pair(call: Call, value: Any) -> str:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not 1 <= len(texts) <= 2 or not all(isinstance(text, str) for text in texts):
        raise call.fields.wrong("inputs", "must be a text, a pair, or a list of lists of one or two texts")
    return "\n".join(texts)


async def embed(call: Call) -> Response:
    """Return a vector for each text, always as a list."""
    fields = call.fields
    model = embedding_model(call, fields.optional_text("model"))
    texts = input_texts(call, "inputs")
    if not all(text.strip() if isinstance(text, str) else text for text in texts):
        raise RequestError("invalid", "inputs holds an empty text", param="inputs")
    vectors = await cut_vectors(call, model, texts, fields.flag("normalize", True))
    return json_response([vector.tolist() for vector in vectors])


async def cut_vectors(call: Call, model: ServedModel, texts: Sequence[Text], normalize: bool) -> list[Array]:
    """Return the vectors of `embed_texts`, of each as many of its first numbers as the request wants."""
    size = call.fields.whole("dimensions", 0, 1, 1 << 20)
    vectors = await embed_texts(call, model, texts, normalize, call.fields.optional_text("prompt_name"))
    if size > len(vectors[0]):
        raise call.fields.wrong("dimensions", f"must be at most {len(vectors[0])}")
    if not size:
        return vectors
    return [_unit(vector[:size]) if normalize else vector[:size] for vector in vectors]


def input_texts(call: Call, name: str) -> Sequence[Text]:
    """Return one text, several, or rows of token ids without their marks. Raises `RequestError`."""
    value = call.fields.raw(name)
    if not isinstance(value, list) or not value or isinstance(value[0], str):
        return call.fields.texts(name)
    rows: Sequence[Any] = [value] if type(value[0]) is int else value
    if not all(isinstance(row, list) for row in rows):
        raise call.fields.wrong(name, "must be texts or token ids")
    tokenizer = embedding_model(call, call.fields.optional_text("model")).model.tokenizer
    if not all(type(token) is int and 0 <= token < tokenizer.vocab_size for row in rows for token in row):
        raise call.fields.wrong(name, f"must be texts, or token ids below {tokenizer.vocab_size}")
    return call.fields.within_limits(name, list(map(tokenizer.unframed, rows)))


async def info(call: Call) -> Response:
    limits = call.services.settings.limits
    content = {
        "model_id": call.catalog.models[0].name,
        "model_sha": None,
        "model_dtype": "float32",
        "max_input_length": limits.text_characters,
        "max_batch_tokens": limits.batch_tokens,
        "max_client_batch_size": limits.texts,
        "max_concurrent_requests": limits.connections,
        "version": __version__,
    }
    return json_response(content)


_WORDS = list_of(list_of(either(TEXT, NUMBER)))
_SCORES = list_of(fields({"score": NUMBER, "label": TEXT}, words=_WORDS, start=WHOLE, end=WHOLE, text=TEXT))
_PREDICT = fields(
    {"inputs": either(TEXT, list_of(TEXT), list_of(list_of(TEXT)))},
    raw_scores=FLAG,
    truncate=FLAG,
    model=TEXT,
    abstain=NUMBER,
    words=WHOLE,
)
VECTORS = list_of(list_of(NUMBER))
"""The schema of the vectors of some texts."""
_VECTOR = {"normalize": FLAG, "dimensions": WHOLE, "prompt_name": TEXT}
_EMBED = fields({"inputs": TEXTS}, truncate=FLAG, model=TEXT, **_VECTOR)
_INFO = fields({"model_id": TEXT, "version": TEXT}, max_client_batch_size=WHOLE)

_EITHER = either(_SCORES, list_of(_SCORES))

ENDPOINTS = [
    Endpoint(POST, "/predict", predict, TEI, "Classify texts.", _EITHER, _PREDICT, wrong_field="unprocessable"),
    Endpoint(POST, "/embed", embed, TEI, "Turn texts into vectors.", VECTORS, _EMBED, wrong_field="unprocessable"),
    Endpoint(GET, "/info", info, TEI, "Tell what is served.", _INFO),
]
"""The routes of Text Embeddings Inference."""
