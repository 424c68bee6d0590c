"""Translate texts with tags: short ones beside the event loop, longer ones in a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from dikkat_runtime.documents.translation import Align
from dikkat_runtime.documents.words import word_spans
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_worker import MAX_MAP_SIZE
from dikkat_runtime.server.marked_up import translate_marked_up
from dikkat_runtime.server.models import AlignWords, ServedModel, Task, Translate, texts_of
from dikkat_runtime.server.text_options import TextOptions
from dikkat_runtime.server.worker_jobs import do_job, marked_up_job

_SHORT = 4000
"""Characters of texts that cannot take long, whatever they hold."""


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
    if sum(map(len, texts)) <= _SHORT:
        engine = _EngineOfLoop(call, model, task)
        return await asyncio.to_thread(translate_marked_up, engine, texts, model.source, options)
    fields, _ = await do_job(call, marked_up_job(call, model, texts, options, task), call.services.markup_turns)
    translations: list[list[str]] = fields["texts"]
    return translations


class _EngineOfLoop:
    """One model, called from a thread beside the event loop, in which it must be made. Raises as `Call.compute`."""

    def __init__(self, call: Call, model: ServedModel, task: Translate) -> None:
        self._call, self._loop, self._task, self._align = call, asyncio.get_running_loop(), task, AlignWords(model)
        self.align: Align | None = self._word_weights if model.has_attention else None
        """None where the model gives no attention."""

    def translate(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the translations of each sentence, the best one first."""
        return [texts_of(translation) for translation in self._computed(self._task, texts)]

    def _word_weights(self, source: str, target: str) -> Array:
        if len(source) * len(target) > MAX_MAP_SIZE:
            return np.zeros((len(word_spans(target)), len(word_spans(source))), np.float32)
        (weights,) = self._computed(self._align, [(source, target)])
        return np.asarray(weights)

    def _computed(self, task: Task, items: Sequence[Any]) -> list[Any]:
        return asyncio.run_coroutine_threadsafe(self._call.compute(task, items), self._loop).result()
