"""The page of the server: its files, and the data beyond translations that it shows."""

import base64
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from starlette.responses import PlainTextResponse, Response

from dikkat_runtime import __version__
from dikkat_runtime.documents.alignment import Span, word_shares
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.localization import script_messages
from dikkat_runtime.server.api.files import FILE, attachment, own_document
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OWN, json_response
from dikkat_runtime.server.endpoint import GET, POST, Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.glossaries import glossary_of
from dikkat_runtime.server.languages import is_available, normal
from dikkat_runtime.server.marked_up import UNPLACED, shown_terms
from dikkat_runtime.server.models import ModelTask, ServedModel, Translate, attend
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import FLAG, TEXT, WHOLE, fields, list_of, required, whole
from dikkat_runtime.server.segments import segments_of
from dikkat_runtime.server.translation import keep_correction, source_of, split_texts, translate_texts, translator_for
from dikkat_runtime.server.worker_jobs import begin_document, supported_suffixes
from dikkat_runtime.tasks.aligner import CrossAttention, word_spans
from dikkat_runtime.tasks.confidence import Confidence
from dikkat_runtime.text.glossary import Glossary


async def send(call: Call) -> Response:
    job, _ = await begin_document(call, call.catalog.chosen(call.fields.text("model"), "translator"))
    return json_response({"id": job.identity, "key": job.key})


async def watch(call: Call) -> Response:
    job = own_document(call, "key")
    content: dict[str, Any] = {
        "status": job.status, "name": job.name, "segments": job.segments, "translated": job.translated,
        "remarks": job.remarks,
    }  # fmt: skip
    return json_response(content | ({"problem": str(job.problem)} if job.status == "error" else {}))


async def fetch(call: Call) -> Response:
    return attachment(call, own_document(call, "key"))


async def give_up(call: Call) -> Response:
    call.services.documents.remove(own_document(call, "key"))
    return Response(status_code=204)


_ONE = "/page/documents/{document_id}"
_KEY = required(key=TEXT)
_TAKEN = required(id=TEXT, key=TEXT)
_BODY = fields({"file": FILE, "model": TEXT}, filename=TEXT, consistent=FLAG)
_STATUS = fields(
    {"status": TEXT, "name": TEXT, "segments": WHOLE, "translated": WHOLE}, problem=TEXT, remarks=list_of(TEXT)
)
_BYTES = "application/octet-stream"

_DOCUMENT_ENDPOINTS = [
    Endpoint(POST, "/page/documents", send, OWN, "Send a document.", _TAKEN, _BODY, takes_files=True),
    Endpoint(GET, _ONE, watch, OWN, "Tell how far a document is.", _STATUS, _KEY),
    Endpoint(GET, f"{_ONE}/file", fetch, OWN, "Fetch a document.", TEXT, _KEY, media_type=_BYTES),
    Endpoint(("DELETE",), _ONE, give_up, OWN, "Forget a document.", fields(), _KEY, status=204),
]
"""The routes of the page's documents."""


FOLDER = "/page/files/"
"""Address of the files of the page."""
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of the page: it loads from this server only."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LANGUAGES = ("en", "tr")
_ACCEPTED = re.compile(r"\s*+(en|tr)\b[^;]*+(?:;\s*+q=([01](?:\.\d{0,3})?)\s*+)?")
"""An entry of the header Accept-Language for one of them, with its weight."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_HTML = "text/html"
_MAX_CHARACTERS = 2000
"""Most characters of a sentence whose attention is shown."""


async def root(call: Call) -> Response:
    """Return the page for a browser, a few words for others."""
    if _HTML not in call.request.headers.get("accept", ""):
        return PlainTextResponse(_in_words(call))
    language = wanted_language(call.request.headers.get("accept-language", ""))
    kind, page = page_files()[INDEX]
    headers = {**_HEADERS, "Content-Type": kind, "Vary": "Accept, Accept-Language"}
    return Response(page.replace(b"{{LANGUAGE}}", language.encode()), headers=headers)


def _in_words(call: Call) -> str:
    models = ", ".join(f"{model.name} ({model.kind})" for model in call.catalog.models)
    lines = (
        f"dikkat-runtime {__version__} serves {'models' if call.services.access.needs_key else models}.",
        "Interfaces: LibreTranslate at /, DeepL at /v2, Google at /language/translate/v2, OpenAI at /v1,",
        "Text Embeddings Inference at /predict and /embed, Hugging Face inference at /models/NAME.",
        "Described at /openapi.json. Probes: /health, /ready, /metrics. A page for people: / in a browser.",
    )
    return "\n".join(lines) + "\n"


async def file(call: Call) -> Response:
    """Return a style sheet, a script or a picture of the page."""
    kind, content = page_files().get(call.request.path_params["name"], ("", b""))
    if not kind or kind.startswith(_HTML):
        raise RequestError("not_found", "there is no such file")
    return Response(content, headers={**_HEADERS, "Content-Type": kind})


async def models(call: Call) -> Response:
    limits = call.services.settings.limits
    content = {
        "version": __version__,
        "models": [_shown_model(model) for model in call.catalog.models],
        "detects": is_available(),
        "corrections": call.services.settings.takes_corrections,
        "files": supported_suffixes(),
        "most_characters": limits.text_characters,
        "most_bytes": limits.upload_bytes,
        "most_alternatives": limits.alternatives,
        "most_tokens": limits.new_tokens,
    }
    return json_response(content)


def _shown_model(model: ServedModel) -> dict[str, Any]:
    row: dict[str, Any] = {"name": model.name, "kind": model.kind}
    if model.kind == "translator":
        row |= {"source": normal(model.source), "target": normal(model.target), "attention": model.has_attention}
    return row


async def translate(call: Call) -> Response:
    """Return a text in parts: sentences with their translations, and the text between them.

    Sentences in `known` are not translated again.
    """
    fields, limits = call.fields, call.services.settings.limits
    text = fields.within_limits("text", [fields.text("text")])[0]
    source, detected = await source_of(call, text, fields.text("source"))
    model = translator_for(call, source, fields.text("target"))
    known = frozenset(fields.texts("known")) if fields.raw("known") else frozenset()
    options = TextOptions(
        sentences=False,
        lines=False,
        alternatives=fields.whole("alternatives", 0, 0, limits.alternatives),
        glossary=await _glossary(call, model.source),
        judged=True,
    )
    (parts,) = await split_texts([text], model.source)
    fresh = [sentence for sentence in dict.fromkeys(segments_of(parts)) if sentence not in known]
    call.count_characters(fresh)
    translations = dict(zip(fresh, await translate_texts(call, model, fresh, options), strict=True))
    rows: list[dict[str, Any]] = []
    for part in parts:
        row: dict[str, Any] = {"text" if part.is_fixed else "source": part.text}
        if not part.is_fixed and (translated := translations.get(part.text)):
            row |= {"target": translated.text, "alternatives": translated.alternatives}
            row |= shown_terms(translated.unplaced)
            if translated.confidence is not None:
                row["confidence"] = shown_confidence(translated.text, translated.confidence)
        rows.append(row)
    content: dict[str, Any] = {"model": model.name, "source": normal(model.source), "parts": rows}
    if detected:
        content["detected"] = {"language": detected.language, "confidence": detected.confidence}
    return json_response(content)


async def _glossary(call: Call, language: str) -> Glossary | None:
    """Return the glossary of lines like `term = translation`. Raises `RequestError` that names the line."""
    text = call.fields.optional_text("glossary") or ""
    if not text.strip():
        return None
    lines = [line if "\t" in line else line.replace("=", "\t", 1) for line in text.split("\n")]
    terms = await call.services.glossaries.parse("\n".join(lines), "\t", "equals sign")
    return await glossary_of(terms, language)


async def complete(call: Call) -> Response:
    fields = call.fields
    model = call.catalog.chosen(fields.text("model"), "translator")
    source, prefix = fields.within_limits("source", [fields.text("source"), fields.text("prefix")])
    if "\n" in source + prefix:
        raise RequestError("invalid", "source and prefix must be one line each", param="source")
    options = BeamOptions(beam_size=call.services.settings.beam_size)
    task = Translate(model, options, await _glossary(call, model.source))
    (translation,) = await call.compute(task, [(source, prefix)])
    content = {"target": translation.text, **shown_terms(translation.unplaced)}
    return json_response(content | ({"flags": list(translation.flags)} if translation.flags else {}))


async def correct(call: Call) -> Response:
    """Keep a better translation of a sentence, where the server accepts them."""
    fields = call.fields
    model = call.catalog.chosen(fields.text("model"), "translator")
    await keep_correction(call, model, fields.text("source"), fields.text("target"))
    return json_response({"success": True})


async def attention(call: Call) -> Response:
    """Return the cross-attention of a translation over its source, by every head."""
    fields = call.fields
    model = call.catalog.chosen(fields.text("model"), "translator")
    if not model.has_attention:
        raise RequestError("unsupported", f"{model.name} does not tell its attention here", param="model")
    pair = fields.text("source"), fields.text("target")
    if max(map(len, pair)) > _MAX_CHARACTERS:
        raise RequestError("too_large", f"a sentence has over {_MAX_CHARACTERS:,} characters", param="source")
    (cross_attention,) = await call.compute(ModelTask(model, attend), [pair])
    return json_response(shown_attention(cross_attention))


def shown_attention(attention: CrossAttention) -> dict[str, Any]:
    """Return tokens of both sides, the word of each, and all weights: bytes (L, H, T, S) in base64, 255 for 1."""
    layers, heads = attention.weights.shape[:2]
    return {
        "source": _side(attention.source, attention.source_spans),
        "target": _side(attention.target, attention.target_spans),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(np.rint(255 * attention.weights).astype(np.uint8).tobytes()).decode(),
    }


def shown_confidence(target: str, confidence: Confidence) -> dict[str, Any]:
    """Return probability of the whole and of each word of a translation, with the span of the word, and its faults."""
    words, position = [], 0
    for word in confidence.words:
        start = target.find(word.text, position)
        if start >= 0:
            position = start + len(word.text)
            words.append({"start": start, "end": position, "probability": word.probability})
    return {"probability": confidence.probability, "words": words, "flags": list(confidence.flags)}


def _side(text: str, tokens: Sequence[Span]) -> dict[str, Any]:
    """Return the characters of each token, the words, and the number of the word of each token."""
    words = word_spans(text)
    number = [0] * len(tokens)
    for word, shares in enumerate(word_shares(words, tokens)):
        for token in shares:
            number[token] = word
    return {
        "tokens": [text[start:end] for start, end in tokens],
        "words": [text[start:end] for start, end in words],
        "word_of": number,
    }


@cache
def page_files() -> Mapping[str, tuple[str, bytes]]:
    """Return media type and content of each file, by its name; messages.js holds what the others say."""
    files = {}
    for file in (resources.files("dikkat_runtime.server") / "page").iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind:
            files[file.name] = kind, file.read_bytes()
    scripts = "\n".join(content.decode() for _, content in files.values())
    files["messages.js"] = _TYPES[".js"], f"export const MESSAGES = {script_messages(scripts)};\n".encode()
    return files


def wanted_language(accepted: str) -> str:
    """Return the preferred language of a header Accept-Language, English where it names none of ours."""
    matches = map(_ACCEPTED.fullmatch, accepted.lower().split(","))
    rows = [(LANGUAGES[0], "0"), *(match.groups() for match in matches if match)]
    return max(rows, key=lambda row: float(row[1] or 1))[0]


_MODEL = fields({"name": TEXT, "kind": TEXT}, source=TEXT, target=TEXT, attention=FLAG)
_MODELS = fields({"version": TEXT, "models": list_of(_MODEL)}, detects=FLAG, files=list_of(TEXT))
_TRANSLATE = fields(
    {"text": TEXT, "source": TEXT, "target": TEXT},
    model=TEXT, alternatives=whole(0, 10), glossary=TEXT, known=list_of(TEXT),
)  # fmt: skip
_PART = fields(
    text=TEXT, source=TEXT, target=TEXT, alternatives=list_of(TEXT), confidence=fields(), unplaced_terms=UNPLACED
)
_PARTS = required(model=TEXT, parts=list_of(_PART))
_SIDE = required(tokens=list_of(TEXT), words=list_of(TEXT), word_of=list_of(WHOLE))
_MAPS = required(source=_SIDE, target=_SIDE, layers=WHOLE, heads=WHOLE, weights=TEXT)
_COMPLETE = fields({"model": TEXT, "source": TEXT, "prefix": TEXT}, glossary=TEXT)
_COMPLETION = fields({"target": TEXT}, flags=list_of(TEXT), unplaced_terms=UNPLACED)
_PAIR = required(model=TEXT, source=TEXT, target=TEXT)

ENDPOINTS = [
    Endpoint(GET, "/", root, OWN, "Show the page, or tell what is served.", TEXT, media_type=_HTML, needs_key=False,
             also={200: "text/plain"}),
    Endpoint(GET, f"{FOLDER}{{name}}", file, OWN, "Show a file of the page.", TEXT, media_type="text/css",
             needs_key=False, also={200: "text/javascript"}),
    Endpoint(GET, "/page/models", models, OWN, "Tell what can be asked.", _MODELS),
    Endpoint(POST, "/page/translate", translate, OWN, "Translate sentence by sentence.", _PARTS, _TRANSLATE),
    Endpoint(POST, "/page/complete", complete, OWN, "Go on with a translation.", _COMPLETION, _COMPLETE),
    Endpoint(POST, "/page/corrections", correct, OWN, "Keep a better translation.", fields(success=FLAG), _PAIR),
    Endpoint(POST, "/page/attention", attention, OWN, "Show attention.", _MAPS, _PAIR),
    *_DOCUMENT_ENDPOINTS,
]  # fmt: skip
"""The routes of the page."""
