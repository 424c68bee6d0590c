"""Call the engine from threads that read documents and markup."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from dikkat_runtime.documents.translation import Align
from dikkat_runtime.documents.words import word_spans
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.models import AlignWords, ServedModel, Task, Translate
from dikkat_runtime.tasks.translator import Translation

_LARGEST_MAP = 4_000_000
"""Characters of a sentence times those of its translation, above which tags are inserted without attention."""


class BlockingEngine:
    """One model, called from a thread beside the event loop, in which it must be made. Raises as `Call.compute`."""

    def __init__(self, call: Call, model: ServedModel, task: Translate | None = None) -> None:
        """`task` translates, by default with the beam of the server."""
        self._call, self._loop = call, asyncio.get_running_loop()
        self._translate = task or model.translate_task(call.services.settings.beam_size, 1)
        self._align = AlignWords(model)
        self.align: Align | None = self._word_weights if model.has_attention else None
        """None where the model gives no attention."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Return the translation of each sentence."""
        return self._computed(self._translate, texts)

    def count_characters(self, texts: Sequence[str]) -> None:
        """Count characters as `Call.count_characters` does."""

        async def count() -> None:
            self._call.count_characters(texts)

        asyncio.run_coroutine_threadsafe(count(), self._loop).result()

    def _word_weights(self, source: str, target: str) -> Array:
        if len(source) * len(target) > _LARGEST_MAP:
            return np.zeros((len(word_spans(target)), len(word_spans(source))), np.float32)
        (weights,) = self._computed(self._align, [(source, target)])
        return np.asarray(weights)

    def _computed(self, task: Task, items: Sequence[Any]) -> list[Any]:
        return asyncio.run_coroutine_threadsafe(self._call.compute(task, items), self._loop).result()
