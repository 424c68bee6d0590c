"""Translate texts with tags by an engine that is called and waited for: each tag comes back once, byte for byte."""

import html
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from dikkat_runtime.documents.decoded_file import TextDocument
from dikkat_runtime.documents.fragments import html_fragment, xml_fragment
from dikkat_runtime.documents.segments import Content, Tag, tagged
from dikkat_runtime.documents.translation import Align, ContentTranslator
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.schemas import TEXT, list_of, required
from dikkat_runtime.server.segments import pieces
from dikkat_runtime.text.glossary import Term
from dikkat_runtime.text.sentences import split_sentences

_LINE_BREAKS = re.compile(r"[\r\n]+")


def translate_marked_up(
    compute: Callable[[Sequence[str]], list[list[str]]],
    align: Align | None,
    texts: Sequence[str],
    language: str,
    options: TextOptions,
) -> list[list[str]]:
    """Return the translations of each text by their rank, the best one first. Raises as the functions do.

    `compute` returns the translations of sentences by their rank; `align` is None where the model gives no attention.
    """
    documents = [_read(text, options) for text in texts]
    contents = [_prepared(segment.content, options) for document in documents for segment in document.segments]
    known = dict[str, list[str]]()

    def translate(sentences: Sequence[str], rank: int) -> list[str]:
        if missing := [text for text in dict.fromkeys(sentences) if text not in known]:
            known.update(zip(missing, compute(missing), strict=True))
        return [ranked(known[sentence], rank) for sentence in sentences]

    split = partial(_sentences, language=language, cuts=options.sentences)
    written: list[list[str]] = [[] for _ in texts]
    for rank in range(options.alternatives + 1):
        results = iter(ContentTranslator(partial(translate, rank=rank), align, split)(contents))
        for document, ranks in zip(documents, written, strict=True):
            own = list(islice(results, len(document.segments)))
            ranks.append(document.write(own).decode())
    return written


def ranked(translations: Sequence[str], rank: int) -> str:
    """Return a translation by its rank, 0 for the best; where there are fewer, the best one."""
    return translations[rank if rank < len(translations) else 0]


def _read(text: str, options: TextOptions) -> TextDocument:
    if options.markup == "html":
        return html_fragment(text, [name.lower() for name in options.structure.ignored])
    return xml_fragment(text, options.structure)


def _prepared(content: Content, options: TextOptions) -> Content:
    """Return content in which line breaks that end a sentence are tags."""
    if options.markup != "xml" or not options.lines:
        return content
    return tuple(tagged(content, _LINE_BREAKS, lambda match: Tag("void", match[0], ends_sentence=True, is_text=True)))


def _sentences(text: str, language: str, cuts: bool) -> list[str]:
    sentences = split_sentences(text, language) if cuts else [text]
    return [piece.strip() for sentence in sentences for piece in pieces(sentence) if piece.strip()]


_START = 8
"""Characters by which a segment is looked up."""
_TAG = re.compile(r"<[^<>]*>")
UNPLACED = list_of(required(source=TEXT, targets=list_of(TEXT)))
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
        pieces = (text[at : at + length] for at, own in starts for length in own)
        results.append(tuple(dict.fromkeys(term for segment in pieces for term in lacking.get(segment, ()))))
    return results


def shown_terms(terms: Iterable[Term]) -> dict[str, Any]:
    """Return the field of an answer that names terms which were not placed; none where all were."""
    rows = [{"source": term.source, "targets": list(term.targets)} for term in terms]
    return {"unplaced_terms": rows} if rows else {}


def _plain(text: str) -> str:
    """Return a text without tags, entities and white space, as its segments have none or others."""
    return "".join(html.unescape(_TAG.sub("", text)).split())
