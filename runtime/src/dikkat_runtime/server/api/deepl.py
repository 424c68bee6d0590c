"""The interface of DeepL v2: translate, languages and usage."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.engine.options import FORMALITIES
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import DEEPL, json_response
from dikkat_runtime.server.endpoint import BOTH, GET, POST, Endpoint
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.glossaries import MAX_CONCURRENT, StoredGlossary, glossary_of
from dikkat_runtime.server.languages import candidates, language_name, normal
from dikkat_runtime.server.marked_up import UNPLACED, shown_terms
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import FLAG, TEXT, TEXTS, WHOLE, fields, list_of, required, words
from dikkat_runtime.server.translation import answer_texts
from dikkat_runtime.text.glossary import Glossary

TSV = "text/tab-separated-values"
_SEPARATORS = {"tsv": ("\t", "tab"), "csv": (",", "comma")}


async def create(call: Call) -> Response:
    fields, store = call.fields, call.services.glossaries
    separator, separator_name = _SEPARATORS[fields.choice("entries_format", "tsv", tuple(_SEPARATORS))]
    name, source, target = (fields.text(field) for field in ("name", "source_lang", "target_lang"))
    if not name.strip() or len(name) > 1024:
        raise RequestError("invalid", "name must have 1 to 1024 characters", param="name")
    if call.catalog.translator(source, target) is None:
        raise RequestError("invalid", "this pair of languages is not translated here", param="target_lang")
    terms = await store.parse(fields.text("entries"), separator, separator_name)
    glossary = StoredGlossary(name, normal(source), normal(target), terms)
    store.add(call.owner, glossary)
    return json_response(_shown(glossary), 201)


async def list_all(call: Call) -> Response:
    return json_response({"glossaries": [_shown(glossary) for glossary in call.services.glossaries.all_of(call.owner)]})


async def show(call: Call) -> Response:
    return json_response(_shown(_named(call)))


async def entries(call: Call) -> Response:
    lines = [f"{term.source}\t{'|'.join(term.targets)}" for term in _named(call).terms]
    return Response("\n".join(lines).encode(), media_type=TSV)


async def remove(call: Call) -> Response:
    call.services.glossaries.remove(call.owner, call.request.path_params["glossary_id"])
    return Response(status_code=204)


async def pairs(call: Call) -> Response:
    served = dict.fromkeys(model.pair for model in call.catalog.of_kind("translator"))
    rows = [{"source_lang": source, "target_lang": target} for source, target in served]
    return json_response({"supported_languages": rows})


def _named(call: Call) -> StoredGlossary:
    return call.services.glossaries.get(call.owner, call.request.path_params["glossary_id"])


def _shown(glossary: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.identity,
        "name": glossary.name,
        "ready": True,
        "source_lang": glossary.source,
        "target_lang": glossary.target,
        "creation_time": datetime.fromtimestamp(glossary.created, UTC).isoformat(timespec="microseconds"),
        "entry_count": len(glossary.terms),
    }


_GLOSSARY = required(
    glossary_id=TEXT, name=TEXT, ready=FLAG, source_lang=TEXT, target_lang=TEXT, creation_time=TEXT, entry_count=WHOLE
)
_NEW_GLOSSARY = fields(
    {"name": TEXT, "source_lang": TEXT, "target_lang": TEXT, "entries": TEXT}, entries_format=words(*_SEPARATORS)
)
_PAIR = required(source_lang=TEXT, target_lang=TEXT)
_PAIRS = required(supported_languages=list_of(_PAIR))
_ALL = required(glossaries=list_of(_GLOSSARY))
_ONE = "/v2/glossaries/{glossary_id}"

_GLOSSARY_ENDPOINTS = [
    Endpoint(POST, "/v2/glossaries", create, DEEPL, "Make a glossary.", _GLOSSARY, _NEW_GLOSSARY, status=201),
    Endpoint(GET, "/v2/glossaries", list_all, DEEPL, "List glossaries.", _ALL),
    Endpoint(GET, _ONE, show, DEEPL, "Show a glossary.", _GLOSSARY),
    Endpoint(GET, f"{_ONE}/entries", entries, DEEPL, "Show the terms of a glossary.", TEXT, media_type=TSV),
    Endpoint(("DELETE",), _ONE, remove, DEEPL, "Delete a glossary.", fields(), status=204),
    Endpoint(GET, "/v2/glossary-language-pairs", pairs, DEEPL, "List pairs of languages.", _PAIRS),
]
"""The routes of DeepL's glossaries."""


NO_LIMIT = 1_000_000_000_000
"""Limit of characters in answers to clients; there is none."""
_UNKNOWN = ("style_id", "custom_instructions", "translation_memory_threshold")
"""Fields of requests that no model here can serve."""


async def translate(call: Call) -> Response:
    """Translate each text, from a language detected for each."""
    fields = call.fields
    texts, target = fields.texts("text"), fields.text("target_lang")
    for name in _UNKNOWN:
        if name in fields:
            raise RequestError("invalid", f"{name} is not supported here", param=name)
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
    catalog, plain = call.catalog, _without_formality(call)
    is_target = call.fields.choice("type", "source", ("source", "target")) == "target"
    rows = [
        {"language": code.upper(), "name": language_name(code)}
        | ({"supports_formality": code not in plain} if is_target else {})
        for code in (catalog.targets if is_target else catalog.sources)
    ]
    return json_response(rows)


async def features(call: Call) -> Response:
    """Return the languages of a resource of DeepL v3: translation of texts has those served, every other has none."""
    sources, targets, plain = call.catalog.sources, call.catalog.targets, _without_formality(call)
    codes = dict.fromkeys([*sources, *targets]) if call.fields.text("resource") == "translate_text" else ()
    rows = [
        {
            "lang": code,
            "name": language_name(code),
            "usable_as_source": code in sources,
            "usable_as_target": code in targets,
            "features": {"formality": {}} if code in targets and code not in plain else {},
        }
        for code in codes
    ]
    return json_response(rows)


def _without_formality(call: Call) -> set[str]:
    return {model.pair[1] for model in call.catalog.of_kind("translator") if not model.model.knows_formality}


async def usage(call: Call) -> Response:
    """Return the characters of this key since the server was started."""
    count = call.key.characters if call.key else call.services.characters
    return json_response({"character_count": count, "character_limit": NO_LIMIT})


_BODY = fields(
    {"text": TEXTS, "target_lang": TEXT},
    source_lang=TEXT,
    formality=words(*FORMALITIES),
    model=TEXT,
    split_sentences=words("0", "1", "nonewlines"),
    tag_handling=words("xml", "html"),
    ignore_tags=TEXTS,
    splitting_tags=TEXTS,
    non_splitting_tags=TEXTS,
    outline_detection=FLAG,
    glossary_id=TEXT,
    translation_memory_id=TEXT,
)
_ANSWER = required(
    translations=list_of(
        fields({"detected_source_language": TEXT, "text": TEXT, "billed_characters": WHOLE}, unplaced_terms=UNPLACED)
    )
)
_LANGUAGES = list_of(fields({"language": TEXT, "name": TEXT}, supports_formality=FLAG))
_FEATURES = list_of(
    required(lang=TEXT, name=TEXT, usable_as_source=FLAG, usable_as_target=FLAG, features=fields(formality=fields()))
)
_USAGE = required(character_count=WHOLE, character_limit=WHOLE)

ENDPOINTS = [
    Endpoint(BOTH, "/v2/translate", translate, DEEPL, "Translate texts.", _ANSWER, _BODY),
    Endpoint(
        BOTH, "/v2/languages", languages, DEEPL, "List languages.", _LANGUAGES, fields(type=words("source", "target"))
    ),
    Endpoint(GET, "/v3/languages", features, DEEPL, "List languages.", _FEATURES, required(resource=TEXT)),
    Endpoint(BOTH, "/v2/usage", usage, DEEPL, "Tell how much was translated.", _USAGE),
    *_GLOSSARY_ENDPOINTS,
]
"""The routes of DeepL."""
