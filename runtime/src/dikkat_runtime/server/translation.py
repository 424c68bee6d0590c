"""Translate texts for every interface; with tags, short ones next to the event loop and longer ones in a process."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dikkat_runtime.documents.placement import MAX_WHOLE_LENGTH
from dikkat_runtime.documents.translation import Align
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_worker import MAX_MAP_SIZE
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.languages import detect, is_available
from dikkat_runtime.server.marked_up import ranked, translate_marked_up, unplaced_terms
from dikkat_runtime.server.models import ModelTask, ServedModel, Task, Translate, align_words, texts_of
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segments import Part, in_thread, segments_of, split_text
from dikkat_runtime.server.worker_jobs import do_job, marked_up_job
from dikkat_runtime.tasks.aligner import word_spans
from dikkat_runtime.tasks.confidence import Confidence
from dikkat_runtime.tasks.translator import Translation
from dikkat_runtime.text.glossary import Term

T = TypeVar("T")
AUTO = "auto"
_MAX_INLINE_LENGTH = 4000
"""Characters of texts that cannot take long, whatever they hold: more are cut next to the event loop."""


@dataclass(slots=True)
class Translated:
    """The translation of one text."""

    text: str
    alternatives: list[str] = field(default_factory=list)
    """Other translations, none twice."""
    unplaced: tuple[Term, ...] = ()
    """The terms of the glossary that it does not hold as demanded."""
    confidence: Confidence | None = None
    """The confidence in a sentence, where it is estimated."""


@dataclass(frozen=True, slots=True)
class Detected:
    """The detected language of a text."""

    language: str
    confidence: float
    """From 0 to 1."""


async def translate_texts(
    call: Call, model: ServedModel, texts: Sequence[str], options: TextOptions
) -> list[Translated]:
    """Translate texts in their order. Raises as `Call.compute`."""
    if options.memory is not None and options.memory not in model.memories:
        known = ", ".join(model.memories) or "none"
        message = f"there is no memory {options.memory[:80]!r} for these languages; there are: {known}"
        raise RequestError("not_found", message, param="translation_memory_id")
    # before any work, and again after it
    call.check_queue()
    plain = [number for number, text in enumerate(texts) if is_plain(text, options)]
    beam = max(call.services.settings.beam_size, options.alternatives + 1)
    search = BeamOptions(beam_size=beam, n_best=options.alternatives + 1)
    task = Translate(model, search, options.glossary, options.memory, model.formality_of(call.fields), options.judged)
    plain_ranks = await _plain_texts(call, task, [texts[number] for number in plain], options)
    ranks = dict(zip(plain, plain_ranks, strict=True))
    if len(plain) < len(texts):
        others = [number for number in range(len(texts)) if number not in ranks]
        contents = await translate_contents(call, model, [texts[number] for number in others], options, task)
        ranks.update(zip(others, contents, strict=True))
    unplaced = await _computed(texts if task.unplaced else (), partial(unplaced_terms, texts, task.unplaced))
    results = []
    for number in range(len(texts)):
        best, *rest = ranks[number]
        alternatives = [other for other in dict.fromkeys(rest) if other != best]
        results.append(Translated(best, alternatives, unplaced[number], task.confidences.get(texts[number])))
    return results


async def split_texts(
    texts: Sequence[str], language: str, *, sentences: bool = True, lines: bool = True, whole: int = 0
) -> list[list[Part]]:
    """Return the parts of each text; long ones are cut next to the event loop."""

    def split() -> list[list[Part]]:
        return [split_text(text, language, sentences=sentences, lines=lines, whole=whole) for text in texts]

    return await _computed(texts, split)


async def _computed(texts: Sequence[str], function: Callable[[], T]) -> T:
    """Return what a function computes of texts; of long ones next to the event loop."""
    return function() if sum(map(len, texts)) <= _MAX_INLINE_LENGTH else await in_thread(function)


async def _plain_texts(call: Call, task: Translate, texts: Sequence[str], options: TextOptions) -> list[list[str]]:
    """Return the translations of each text by their rank."""

    parts = await split_texts(
        texts, task.model.source, sentences=options.sentences, lines=options.lines, whole=MAX_WHOLE_LENGTH
    )
    segments = [segment for text_parts in parts for segment in segments_of(text_parts)]
    translations = iter(await call.compute(task, segments))

    def join() -> list[list[str]]:
        results = []
        for text_parts in parts:
            own = [next(translations) for part in text_parts if not part.is_fixed]
            ranks = range(options.alternatives + 1)
            results.append([escaped(_joined(text_parts, own, rank), options) for rank in ranks])
        return results

    return await _computed(texts, join)


async def keep_correction(call: Call, model: ServedModel, source: str, target: str) -> None:
    """Keep a correction of a text. Raises `RequestError` where the server takes no corrections."""
    if not call.services.settings.takes_corrections:
        raise RequestError("unsupported", "better translations are not taken here; start the server with --corrections")
    call.fields.within_limits("source", [source, target])
    await asyncio.to_thread(model.model.corrections.add, source, target)


async def source_of(call: Call, text: str, source: str | None) -> tuple[str, Detected | None]:
    """Return the language to translate from, and the detected one where the client left it open.

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
    """One text of a request with its translation and language."""

    translated: Translated
    model: ServedModel
    detected: Detected | None
    """None where the client named the language."""


async def answer_texts(
    call: Call, texts: Sequence[str], source: str | None, target: str, options: TextOptions
) -> list[Answer]:
    """Translate each text, from a language detected for each where `source` is left open.

    Raises as `translate_texts` and `translator_for`.
    """
    sources = [await source_of(call, text, source) for text in texts]
    answers: dict[int, Answer] = {}
    for code in dict.fromkeys(code for code, _ in sources):
        model = translator_for(call, code, target)
        own = [number for number, (other, _) in enumerate(sources) if other == code]
        results = await translate_texts(call, model, [texts[number] for number in own], options)
        for number, translated in zip(own, results, strict=True):
            answers[number] = Answer(translated, model, sources[number][1])
    return [answers[number] for number in range(len(texts))]


def translator_for(call: Call, source: str, target: str) -> ServedModel:
    """Return the translator between two languages, or the one that the request names as its `model`.

    Raises `RequestError` that lists those served.
    """
    if name := call.fields.optional_text("model"):
        return call.catalog.chosen(name, "translator")
    model = call.catalog.translator(source, target)
    if model is None:
        served = ", ".join(f"{other.source} to {other.target}" for other in call.catalog.of_kind("translator"))
        param = "source" if call.catalog.known(source, call.catalog.sources) is None else "target"
        raise RequestError(
            "invalid",
            f"{source[:20]} to {target[:20]} is not translated here; what is: {served or 'nothing'}",
            param=param,
        )
    return model


def _joined(parts: Sequence[Part], translations: Sequence[Translation], rank: int) -> str:
    """Return the text with the translations of a rank, 0 for the best; a segment with fewer takes its best one."""
    own = iter(translations)
    return "".join(part.text if part.is_fixed else ranked(texts_of(next(own)), rank) for part in parts)


def is_plain(text: str, options: TextOptions) -> bool:
    """Return whether a text holds sentences alone, without tags."""
    return options.markup == "text" or not ("<" in text or "&" in text)


def escaped(text: str, options: TextOptions) -> str:
    """Return the translation of a plain text, escaped where tags may stand."""
    return text if options.markup == "text" else text.replace("&", "&amp;").replace("<", "&lt;")


async def translate_contents(
    call: Call, model: ServedModel, texts: Sequence[str], options: TextOptions, task: Translate
) -> list[list[str]]:
    """Return the translations of each text by their rank, the best one first. Raises as `do_job`."""
    if sum(map(len, texts)) <= _MAX_INLINE_LENGTH:
        return await asyncio.to_thread(translate_marked_up, *_waiting(call, task), texts, model.source, options)
    fields, _ = await do_job(call, marked_up_job(call, model, texts, options, task), call.services.markup_turns)
    translations: list[list[str]] = fields["texts"]
    return translations


def _waiting(call: Call, task: Translate) -> tuple[Callable[[Sequence[str]], list[list[str]]], Align]:
    """Return functions that translate and align in a thread next to the event loop, in which this one is called."""
    loop = asyncio.get_running_loop()

    def computed(own: Task, items: Sequence[Any]) -> list[Any]:
        return asyncio.run_coroutine_threadsafe(call.compute(own, items), loop).result()

    def align(source: str, target: str) -> Array:
        if len(source) * len(target) > MAX_MAP_SIZE:
            return np.zeros((len(word_spans(target)), len(word_spans(source))), np.float32)
        return np.asarray(computed(ModelTask(task.model, align_words), [(source, target)])[0])

    return lambda texts: [texts_of(translation) for translation in computed(task, texts)], align
