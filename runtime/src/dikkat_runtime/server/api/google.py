"""The interface of Google Cloud Translation v2 (Basic)."""

from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import GOOGLE, json_response
from dikkat_runtime.server.endpoint import BOTH, Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.languages import detect as detected_languages
from dikkat_runtime.server.languages import language_name
from dikkat_runtime.server.schemas import FLAG, NUMBER, TEXT, TEXTS, Schema, fields, list_of, required, words
from dikkat_runtime.server.translation import Answer, answer_texts

_RELIABLE = 0.9


async def translate(call: Call) -> Response:
    """Translate each text, as HTML unless the request names another format, as Google does."""
    fields = call.fields
    texts, target = fields.texts("q"), fields.text("target")
    is_html = fields.choice("format", "html", ("html", "text")) == "html"
    call.count_characters(texts)
    options = TextOptions(markup="html" if is_html else "text")
    answers = await answer_texts(call, texts, fields.optional_text("source") or None, target, options)
    return _data({"translations": [_shown(answer) for answer in answers]})


def _shown(answer: Answer) -> dict[str, Any]:
    row = {"translatedText": answer.translated.text}
    return row | ({"detectedSourceLanguage": answer.detected.language} if answer.detected else {})


async def languages(call: Call) -> Response:
    """Return every language; with `target`, with its name, which is English."""
    catalog = call.catalog
    codes = list(dict.fromkeys([*catalog.sources, *catalog.targets]))
    with_names = bool(call.fields.optional_text("target"))
    rows = [{"language": code} | ({"name": language_name(code)} if with_names else {}) for code in codes]
    return _data({"languages": rows})


async def detect(call: Call) -> Response:
    rows = []
    for text in call.fields.texts("q"):
        code, probability = (await detected_languages(text, 1))[0]
        rows.append([{"language": code, "confidence": probability, "isReliable": probability >= _RELIABLE}])
    return _data({"detections": rows})


def _data(content: dict[str, Any]) -> Response:
    return json_response({"data": content})


def _in_data(**properties: Schema) -> Schema:
    return required(data=required(**properties))


_BODY = fields({"q": TEXTS, "target": TEXT}, source=TEXT, format=words("html", "text"), model=TEXT)
_TRANSLATIONS = _in_data(translations=list_of(fields({"translatedText": TEXT}, detectedSourceLanguage=TEXT)))
_LANGUAGES = _in_data(languages=list_of(fields({"language": TEXT}, name=TEXT)))
_DETECTED = required(language=TEXT, confidence=NUMBER, isReliable=FLAG)
_DETECTIONS = _in_data(detections=list_of(list_of(_DETECTED)))
_PATH = "/language/translate/v2"

ENDPOINTS = [
    Endpoint(BOTH, _PATH, translate, GOOGLE, "Translate texts.", _TRANSLATIONS, _BODY),
    Endpoint(BOTH, f"{_PATH}/languages", languages, GOOGLE, "List languages.", _LANGUAGES, fields(target=TEXT)),
    Endpoint(BOTH, f"{_PATH}/detect", detect, GOOGLE, "Tell languages.", _DETECTIONS, required(q=TEXTS)),
]
"""The routes of Google."""
