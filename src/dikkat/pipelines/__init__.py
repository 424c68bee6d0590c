"""Text in, text out: the jobs that users ask for, built from all lower layers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dikkat.pipelines.classification import Classification, Classifier
    from dikkat.pipelines.embedding import Embedder
    from dikkat.pipelines.language_model import Continuation, LanguageModel
    from dikkat.pipelines.loading import load
    from dikkat.pipelines.translation import Translation, Translator

__all__ = [
    "Classification",
    "Classifier",
    "Continuation",
    "Embedder",
    "LanguageModel",
    "Translation",
    "Translator",
    "load",
]

_HOMES = {
    "Classification": "classification",
    "Classifier": "classification",
    "Continuation": "language_model",
    "Embedder": "embedding",
    "LanguageModel": "language_model",
    "Translation": "translation",
    "Translator": "translation",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    # on first use, so that whoever translates natively does not wait for torch
    if name in _HOMES:
        return getattr(import_module(f"dikkat.pipelines.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dikkat.pipelines' has no attribute {name!r}")
