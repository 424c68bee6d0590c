"""Texts and marked-up texts through a translator, whatever interface asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.detection import detect, is_available
from dikkat_runtime.server.glossaries import Terms
from dikkat_runtime.server.markup import HTML_IGNORED, escaped, split_markup
from dikkat_runtime.server.models import ServedModel, Translate
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segments import Fixed, Part, segments_of, split_text
from dikkat_runtime.tasks.translator import Translation

AUTO = "auto"
_SHORT = 20_000
"""Characters that are cut into sentences in the event loop; more are cut beside it."""
Markup = Literal["text", "html", "xml"]


@dataclass(frozen=True, slots=True)
class Wish:
    """How texts are to be translated."""

    markup: Markup = "text"
    ignored: Collection[str] = ()
    """Lower-case names of elements that stay as they are."""
    sentences: bool = True
    """Whether a line is cut into sentences."""
    lines: bool = True
    """Whether a line break ends a sentence."""
    alternatives: int = 0
    terms: Terms | None = None


@dataclass(slots=True)
class Translated:
    """The translation of one text."""

    text: str
    alternatives: list[str] = field(default_factory=list)
    """Other translations, none twice."""


@dataclass(frozen=True, slots=True)
class Detected:
    """The language that a text is in."""

    language: str
    confidence: float
    """From 0 to 1."""


async def translate_texts(call: Call, model: ServedModel, texts: Sequence[str], wish: Wish) -> list[Translated]:
    """Translate texts in their order. Raises as `Call.compute`."""
    if sum(map(len, texts)) <= _SHORT:
        parts = [_split(text, model.source, wish) for text in texts]
    else:
        parts = await asyncio.to_thread(lambda: [_split(text, model.source, wish) for text in texts])
    beam = max(call.services.settings.beam_size, wish.alternatives + 1)
    task = Translate(model, BeamOptions(beam_size=beam, n_best=wish.alternatives + 1))
    segments = [segment for each in parts for segment in segments_of(each)]
    translations = iter(await call.compute(task, segments))
    results = []
    for each in parts:
        own = [next(translations) for part in each if not isinstance(part, Fixed)]
        best, *others = [_joined(each, own, rank, wish) for rank in range(wish.alternatives + 1)]
        results.append(Translated(best, [other for other in dict.fromkeys(others) if other != best]))
    return results


async def source_of(call: Call, text: str, source: str | None) -> tuple[str, Detected | None]:
    """The language to translate from, and what was detected where the client left it open.

    Where only one language is translated from, it is that one.
    """
    if source and source.lower() != AUTO:
        return source, None
    sources = call.catalog.sources
    if len(sources) == 1 and not is_available():
        return sources[0], Detected(sources[0], 0.0)
    ranked = await detect(text, count=200)
    for code, probability in ranked:
        if known := call.catalog.known(code, sources):
            return known, Detected(known, probability)
    if sources:
        return sources[0], Detected(sources[0], 0.0)
    raise RequestError("invalid", "no translator is served here", param="source")


@dataclass(frozen=True, slots=True)
class Answer:
    """One text of a request, translated."""

    translated: Translated
    model: ServedModel
    detected: Detected | None
    """None where the client said the language."""


async def answer_texts(
    call: Call, texts: Sequence[str], source: str | None, target: str, wish: Wish, name: str | None = None
) -> list[Answer]:
    """Translate each text, out of the language that it is in itself where `source` is left open.

    Raises as `translate_texts` and `translator_for`.
    """
    sources = [await source_of(call, text, source) for text in texts]
    answers: dict[int, Answer] = {}
    for code in dict.fromkeys(code for code, _ in sources):
        model = translator_for(call, code, target, name)
        own = [number for number, (other, _) in enumerate(sources) if other == code]
        results = await translate_texts(call, model, [texts[number] for number in own], wish)
        for number, translated in zip(own, results, strict=True):
            answers[number] = Answer(translated, model, sources[number][1])
    return [answers[number] for number in range(len(texts))]


def translator_for(call: Call, source: str, target: str, name: str | None = None) -> ServedModel:
    """The translator between two languages, or the one of a name. Raises `RequestError` that names what is served."""
    if name:
        return call.catalog.chosen(name, "translator")
    model = call.catalog.translator(source, target)
    if model is None:
        served = ", ".join(f"{each.source} to {each.target}" for each in call.catalog.of_kind("translator"))
        param = "source" if call.catalog.known(source, call.catalog.sources) is None else "target"
        raise RequestError(
            "invalid",
            f"{source[:20]} to {target[:20]} is not translated here; what is: {served or 'nothing'}",
            param=param,
        )
    return model


def _split(text: str, language: str, wish: Wish) -> list[Part]:
    if wish.markup == "text":
        return split_text(text, language, sentences=wish.sentences, lines=wish.lines, terms=wish.terms)
    ignored = {*wish.ignored, *(HTML_IGNORED if wish.markup == "html" else ())}
    return split_markup(text, ignored, language, sentences=wish.sentences, lines=wish.lines, terms=wish.terms)


def _joined(parts: Sequence[Part], translations: Sequence[Translation], rank: int, wish: Wish) -> str:
    """The text with the translations of a rank, 0 for the best; a segment with fewer takes its best one."""
    own = iter(translations)
    written = []
    for part in parts:
        if isinstance(part, Fixed):
            written.append(part.text)
            continue
        best = next(own)
        ranked = (best, *best.alternatives)
        text = ranked[rank if rank < len(ranked) else 0].text
        written.append(text if wish.markup == "text" else escaped(text))
    return "".join(written)
