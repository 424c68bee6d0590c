"""The interface of DeepL v2: translate, languages and usage."""

from dataclasses import replace

from starlette.responses import Response

from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.server.api.deepl_glossaries import ENDPOINTS as GLOSSARY_ENDPOINTS
from dikkat_runtime.server.api.schemas import FLAG, TEXT, TEXTS, WHOLE, fields, list_of, words
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import DEEPL, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.glossaries import MAX_CONCURRENT, glossary_of
from dikkat_runtime.server.languages import candidates, language_name, normal
from dikkat_runtime.server.marked_up import UNPLACED, shown_terms
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.translation import answer_texts
from dikkat_runtime.text.glossary import Glossary

NO_LIMIT = 1_000_000_000_000
"""Limit of characters in answers to clients; there is none."""
_UNKNOWN = ("style_id", "custom_instructions", "translation_memory_threshold")
"""Fields of requests that no model here can serve."""
_FORMALITY = ("default", "prefer_more", "prefer_less", "more", "less")


async def translate(call: Call) -> Response:
    """Translate each text, from a language detected for each."""
    fields = call.fields
    texts, target = fields.texts("text"), fields.text("target_lang")
    for name in _UNKNOWN:
        if name in fields:
            raise RequestError("invalid", f"{name} is not supported here", param=name)
    formality = fields.choice("formality", "default", _FORMALITY)
    if formality in ("more", "less"):
        raise RequestError("invalid", "formality is not supported for this target language", param="formality")
    glossary = await _glossary(call)
    options = replace(_text_options(call, glossary), memory=fields.optional_text("translation_memory_id"))
    call.count_characters(texts)
    answers = await answer_texts(call, texts, fields.optional_text("source_lang"), target, options)
    rows = [
        {
            "detected_source_language": normal(answer.model.source).upper(),
            "text": answer.translated.text,
            "billed_characters": len(text),
            **shown_terms(answer.translated.unplaced),
        }
        for text, answer in zip(texts, answers, strict=True)
    ]
    return json_response({"translations": rows})


def _text_options(call: Call, glossary: Glossary | None) -> TextOptions:
    fields = call.fields
    split = fields.choice("split_sentences", "1", ("0", "1", "nonewlines"))
    handling = fields.choice("tag_handling", "", ("xml", "html"))
    structure = Structure(
        ignored=_names(call, "ignore_tags"),
        splitting=_names(call, "splitting_tags"),
        inside=_names(call, "non_splitting_tags"),
        detects=fields.flag("outline_detection", True),
    )
    return TextOptions(
        markup="xml" if handling == "xml" else "html" if handling == "html" else "text",
        structure=structure,
        sentences=split != "0",
        lines=split == "1",
        glossary=glossary,
    )


def _names(call: Call, field: str) -> list[str]:
    """Return names of tags, from a list or separated by commas."""
    if field not in call.fields:
        return []
    return [name.strip() for text in call.fields.texts(field) for name in text.split(",") if name.strip()]


async def _glossary(call: Call) -> Glossary | None:
    """Return the requested glossary; of several, one with all their terms."""
    named = list(dict.fromkeys(name for field in ("glossary_id", "glossary_ids") for name in _names(call, field)))
    if len(named) > MAX_CONCURRENT:
        raise RequestError("invalid", f"glossary_ids has over {MAX_CONCURRENT} glossaries", param="glossary_ids")
    glossaries = [call.services.glossaries.get(call.owner, name) for name in named]
    if not glossaries:
        return None
    terms = {term.source: term for glossary in reversed(glossaries) for term in glossary.terms}
    target, source = call.fields.text("target_lang"), call.fields.optional_text("source_lang") or ""
    for glossary in glossaries:
        if not source:
            raise RequestError("invalid", "source_lang is needed with a glossary", param="source_lang")
        if not _are_alike(glossary.source, source) or not _are_alike(glossary.target, target):
            raise RequestError("invalid", "the glossary is for other languages", param="glossary_id")
    return await glossary_of(terms.values(), glossaries[0].source)


def _are_alike(one: str, other: str) -> bool:
    return normal(one).partition("-")[0] in candidates(other)


async def languages(call: Call) -> Response:
    """Return languages to translate from, or with `type=target` into."""
    catalog = call.catalog
    is_target = call.fields.choice("type", "source", ("source", "target")) == "target"
    rows = [
        {"language": code.upper(), "name": language_name(code)} | ({"supports_formality": False} if is_target else {})
        for code in (catalog.targets if is_target else catalog.sources)
    ]
    return json_response(rows)


async def usage(call: Call) -> Response:
    """Return the characters of this key since the server was started."""
    count = call.key.characters if call.key else call.services.characters
    return json_response({"character_count": count, "character_limit": NO_LIMIT})


_BODY = fields(
    ("text", "target_lang"),
    text=TEXTS,
    target_lang=TEXT,
    source_lang=TEXT,
    formality=words(*_FORMALITY),
    split_sentences=words("0", "1", "nonewlines"),
    tag_handling=words("xml", "html"),
    ignore_tags=TEXTS,
    splitting_tags=TEXTS,
    non_splitting_tags=TEXTS,
    outline_detection=FLAG,
    glossary_id=TEXT,
    translation_memory_id=TEXT,
)
_ANSWER = fields(
    ("translations",),
    translations=list_of(
        fields(
            ("detected_source_language", "text", "billed_characters"),
            detected_source_language=TEXT,
            text=TEXT,
            billed_characters=WHOLE,
            unplaced_terms=UNPLACED,
        )
    ),
)
_LANGUAGES = list_of(fields(("language", "name"), language=TEXT, name=TEXT, supports_formality=FLAG))
_USAGE = fields(("character_count", "character_limit"), character_count=WHOLE, character_limit=WHOLE)
_BOTH = ("GET", "POST")

ENDPOINTS = [
    Endpoint(_BOTH, "/v2/translate", translate, DEEPL, "Translate texts.", _ANSWER, _BODY),
    Endpoint(
        _BOTH, "/v2/languages", languages, DEEPL, "List languages.", _LANGUAGES, fields(type=words("source", "target"))
    ),
    Endpoint(_BOTH, "/v2/usage", usage, DEEPL, "Tell how much was translated.", _USAGE),
    *GLOSSARY_ENDPOINTS,
]
"""The routes of DeepL."""
