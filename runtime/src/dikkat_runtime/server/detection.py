"""Guess the language of a text by py3langid where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from functools import cache
from typing import Any

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.text.placeholders import has_words

MAX_READ = 4000
"""Characters of a text that are read."""
_LOCK = threading.Lock()
"""A lock of the library, which is not said to be safe for several threads."""


def is_available() -> bool:
    """Return whether languages can be detected."""
    return importlib.util.find_spec("py3langid") is not None


async def detect(text: str, count: int = 3) -> list[tuple[str, float]]:
    """Return the likeliest languages with their probabilities, best first.

    A text without letters counts as English, at 0. Raises `RequestError` where nothing can be detected.
    """
    if not has_words(text):
        return [("en", 0.0)]
    if not is_available():
        raise RequestError("unsupported", "languages cannot be detected here: pip install 'dikkat-runtime[detect]'")
    ranked = await asyncio.to_thread(_ranked, text[:MAX_READ])
    return ranked[:count]


def _ranked(text: str) -> list[tuple[str, float]]:
    with _LOCK:
        return [(str(code), float(probability)) for code, probability in _identifier().rank(text)]


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages({code for code in identifier.labels if len(code) == 2})
    return identifier
