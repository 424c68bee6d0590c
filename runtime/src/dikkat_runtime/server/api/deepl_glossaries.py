"""The glossaries of DeepL v2, which the server keeps while it runs."""

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.api.schemas import FLAG, TEXT, WHOLE, fields, list_of, words
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import DEEPL, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.glossaries import StoredGlossary
from dikkat_runtime.server.languages import normal
from dikkat_runtime.server.request_error import RequestError

TSV = "text/tab-separated-values"
_SEPARATORS = {"tsv": ("\t", "tab"), "csv": (",", "comma")}


async def create(call: Call) -> Response:
    """Keep a new glossary."""
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
    """Return all glossaries."""
    return json_response({"glossaries": [_shown(glossary) for glossary in call.services.glossaries.all_of(call.owner)]})


async def show(call: Call) -> Response:
    """Return one glossary."""
    return json_response(_shown(_named(call)))


async def entries(call: Call) -> Response:
    """Return the terms of a glossary."""
    lines = [f"{term.source}\t{'|'.join(term.targets)}" for term in _named(call).terms]
    return Response("\n".join(lines).encode(), media_type=TSV)


async def remove(call: Call) -> Response:
    """Delete a glossary."""
    call.services.glossaries.remove(call.owner, call.request.path_params["glossary_id"])
    return Response(status_code=204)


async def pairs(call: Call) -> Response:
    """Return the pairs of languages that glossaries can be for."""
    models = call.catalog.of_kind("translator")
    served = dict.fromkeys((normal(model.source), normal(model.target)) for model in models)
    rows = [{"source_lang": source, "target_lang": target} for source, target in served]
    return json_response({"supported_languages": rows})


def _named(call: Call) -> StoredGlossary:
    return call.services.glossaries.get(call.owner, call.request.path_params["glossary_id"])


def _shown(glossary: StoredGlossary) -> dict[str, Any]:
    created = datetime.fromtimestamp(glossary.created, UTC)
    return {
        "glossary_id": glossary.identity,
        "name": glossary.name,
        "ready": True,
        "source_lang": glossary.source,
        "target_lang": glossary.target,
        "creation_time": created.isoformat(timespec="microseconds"),
        "entry_count": len(glossary.terms),
    }


_GLOSSARY = fields(
    ("glossary_id", "name", "ready", "source_lang", "target_lang", "creation_time", "entry_count"),
    glossary_id=TEXT,
    name=TEXT,
    ready=FLAG,
    source_lang=TEXT,
    target_lang=TEXT,
    creation_time=TEXT,
    entry_count=WHOLE,
)
_BODY = fields(
    ("name", "source_lang", "target_lang", "entries"),
    name=TEXT,
    source_lang=TEXT,
    target_lang=TEXT,
    entries=TEXT,
    entries_format=words(*_SEPARATORS),
)
_PAIR = fields(("source_lang", "target_lang"), source_lang=TEXT, target_lang=TEXT)
_PAIRS = fields(("supported_languages",), supported_languages=list_of(_PAIR))
_ALL = fields(("glossaries",), glossaries=list_of(_GLOSSARY))
_ONE = "/v2/glossaries/{glossary_id}"
_GET = ("GET",)

ENDPOINTS = [
    Endpoint(("POST",), "/v2/glossaries", create, DEEPL, "Make a glossary.", _GLOSSARY, _BODY, status=201),
    Endpoint(_GET, "/v2/glossaries", list_all, DEEPL, "List glossaries.", _ALL),
    Endpoint(_GET, _ONE, show, DEEPL, "Show a glossary.", _GLOSSARY),
    Endpoint(_GET, f"{_ONE}/entries", entries, DEEPL, "Show the terms of a glossary.", TEXT, media_type=TSV),
    Endpoint(("DELETE",), _ONE, remove, DEEPL, "Delete a glossary.", fields(), status=204),
    Endpoint(_GET, "/v2/glossary-language-pairs", pairs, DEEPL, "List pairs of languages.", _PAIRS),
]
"""The routes of DeepL's glossaries."""
