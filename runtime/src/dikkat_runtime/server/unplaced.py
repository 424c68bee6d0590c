"""Report the terms of a glossary that translated texts do not hold."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dikkat_runtime.server.api.schemas import TEXT, fields, list_of
from dikkat_runtime.text.glossary import Term

_START = 8
"""Characters by which a segment is looked up."""
_TAG = re.compile(r"<[^<>]*>")
UNPLACED = list_of(fields(("source", "targets"), source=TEXT, targets=list_of(TEXT)))
"""The schema of `shown_terms`."""


def unplaced_terms(texts: Sequence[str], segments: Mapping[str, tuple[Term, ...]]) -> list[tuple[Term, ...]]:
    """Return the terms that the translation of each text lacks, from those that the `segments` of all lack."""
    if not segments:
        return [()] * len(texts)
    lacking = defaultdict[str, list[Term]](list)
    for segment, terms in segments.items():
        lacking[_plain(segment)] += terms
    first = min(_START, *map(len, lacking))
    # each place of a text is looked up once for each length that a segment which begins alike has
    lengths = defaultdict[str, set[int]](set)
    for segment in lacking:
        lengths[segment[:first]].add(len(segment))
    results = []
    for text in map(_plain, texts):
        starts = ((at, lengths[start]) for at in range(len(text)) if (start := text[at : at + first]) in lengths)
        parts = (text[at : at + length] for at, own in starts for length in own)
        results.append(tuple(dict.fromkeys(term for segment in parts for term in lacking.get(segment, ()))))
    return results


def shown_terms(terms: Iterable[Term]) -> dict[str, Any]:
    """Return the field of an answer that names terms which were not placed; none where all were."""
    rows = [{"source": term.source, "targets": list(term.targets)} for term in terms]
    return {"unplaced_terms": rows} if rows else {}


def _plain(text: str) -> str:
    """Return a text without tags, entities and white space, as its segments have none or others."""
    return "".join(html.unescape(_TAG.sub("", text)).split())
