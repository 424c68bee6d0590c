"""Report the terms of a glossary that translated texts do not hold."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dikkat_runtime.server.api.schemas import TEXT, fields, list_of
from dikkat_runtime.text.glossary import Term

_TAG = re.compile(r"<[^<>]*>")
UNPLACED = list_of(fields(("source", "targets"), source=TEXT, targets=list_of(TEXT)))
"""The schema of `shown_terms`."""


def unplaced_terms(text: str, segments: Mapping[str, tuple[Term, ...]]) -> tuple[Term, ...]:
    """Return the terms that the translation of a text lacks, from those that its `segments` lack."""
    if not segments:
        return ()
    plain = _plain(text)
    own = (terms for segment, terms in segments.items() if _plain(segment) in plain)
    return tuple(dict.fromkeys(term for terms in own for term in terms))


def shown_terms(terms: Iterable[Term]) -> dict[str, Any]:
    """Return the field of an answer that names terms which were not placed; none where all were."""
    rows = [{"source": term.source, "targets": list(term.targets)} for term in terms]
    return {"unplaced_terms": rows} if rows else {}


def _plain(text: str) -> str:
    """Return a text without tags, entities and white space, as its segments have none or others."""
    return "".join(html.unescape(_TAG.sub("", text)).split())
