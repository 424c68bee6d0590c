"""The interface of LibreTranslate: translate, detect, languages and settings."""

from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import LIBRETRANSLATE, json_response
from dikkat_runtime.server.endpoint import GET, POST, Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.languages import detect as detected_languages
from dikkat_runtime.server.languages import is_available, language_name
from dikkat_runtime.server.schemas import FLAG, TEXT, TEXTS, WHOLE, either, fields, list_of, required, whole, words
from dikkat_runtime.server.translation import AUTO, Detected, answer_texts, keep_correction, translator_for
from dikkat_runtime.server.worker_jobs import supported_suffixes

_LIKELY = 0.01
"""Least probability of a second or third language in an answer."""


async def translate(call: Call) -> Response:
    """Translate a text, or each text of a list from a language detected for each."""
    fields, limits = call.fields, call.services.settings.limits
    texts, source, target = fields.texts("q"), fields.text("source"), fields.text("target")
    count = fields.whole("alternatives", 0, 0, limits.alternatives)
    markup = fields.choice("format", "text", ("text", "html"))
    call.count_characters(texts)
    options = TextOptions(markup="html" if markup == "html" else "text", alternatives=count)
    answers = await answer_texts(call, texts, source, target, options)
    content: dict[str, Any] = {"translatedText": [answer.translated.text for answer in answers]}
    if source.lower() == AUTO:
        content["detectedLanguage"] = [_shown(answer.detected) for answer in answers if answer.detected]
    if count:
        content["alternatives"] = [answer.translated.alternatives for answer in answers]
    if not isinstance(fields.raw("q"), list):
        content = {name: values[0] for name, values in content.items()}
    return json_response(content)


def _shown(detected: Detected) -> dict[str, Any]:
    return {"confidence": round(100 * detected.confidence), "language": detected.language}


async def languages(call: Call) -> Response:
    """Return every language, with those that it is translated into."""
    catalog = call.catalog
    rows = [
        {"code": code, "name": language_name(code), "targets": list(dict.fromkeys([code, *catalog.targets_of(code)]))}
        for code in dict.fromkeys([*catalog.sources, *catalog.targets])
    ]
    return json_response(rows)


async def detect(call: Call) -> Response:
    """Return the likeliest languages of a text; of a list, of all its texts together."""
    ranked = await detected_languages("\n".join(call.fields.texts("q")))
    kept = [row for number, row in enumerate(ranked) if number == 0 or row[1] >= _LIKELY]
    return json_response([_shown(Detected(*row)) for row in kept])


async def settings(call: Call) -> Response:
    """Return the settings that a page for the server needs."""
    services = call.services
    models = services.catalog.of_kind("translator")
    source, target = (models[0].source, models[0].target) if models else ("", "")
    content = {
        "apiKeys": services.access.needs_key,
        "charLimit": services.settings.limits.text_characters,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": services.access.needs_key,
        "language": {
            "source": {"code": AUTO if is_available() else source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
        "suggestions": services.settings.takes_corrections,
        "supportedFilesFormat": supported_suffixes(),
    }
    return json_response(content)


async def suggest(call: Call) -> Response:
    """Keep a better translation, where the server accepts them."""
    fields = call.fields
    source, target = fields.text("source"), fields.text("target")
    await keep_correction(call, translator_for(call, source, target), fields.text("q"), fields.text("s"))
    return json_response({"success": True})


_DETECTED = required(confidence=WHOLE, language=TEXT)
_CODE = required(code=TEXT, name=TEXT)
_LANGUAGES = list_of(required(code=TEXT, name=TEXT, targets=list_of(TEXT)))
_BODY = fields(
    {"q": TEXTS, "source": TEXT, "target": TEXT},
    format=words("text", "html"),
    alternatives=whole(0, 10),
    api_key=TEXT,
    model=TEXT,
)
_ANSWER = fields(
    {"translatedText": either(TEXT, list_of(TEXT))},
    detectedLanguage=either(_DETECTED, list_of(_DETECTED)),
    alternatives=either(list_of(TEXT), list_of(list_of(TEXT))),
)
_SETTINGS = fields(
    {"apiKeys": FLAG, "charLimit": WHOLE, "language": required(source=_CODE, target=_CODE)},
    filesTranslation=FLAG,
    frontendTimeout=WHOLE,
    keyRequired=FLAG,
    suggestions=FLAG,
    supportedFilesFormat=list_of(TEXT),
)
_SUGGEST = required(q=TEXT, s=TEXT, source=TEXT, target=TEXT)
_OF = LIBRETRANSLATE

ENDPOINTS = [
    Endpoint(POST, "/translate", translate, _OF, "Translate a text or a list of texts.", _ANSWER, _BODY),
    Endpoint(POST, "/detect", detect, _OF, "Tell the language of a text.", list_of(_DETECTED), required(q=TEXTS)),
    Endpoint(GET, "/languages", languages, _OF, "List the languages.", _LANGUAGES, needs_key=False),
    Endpoint(GET, "/frontend/settings", settings, _OF, "Tell what is served.", _SETTINGS, needs_key=False),
    Endpoint(POST, "/suggest", suggest, _OF, "Keep a better translation.", fields(success=FLAG), _SUGGEST),
]
"""The routes of LibreTranslate; /health is among the probes."""
