"""Train, load and use models from text to text; one folder for each kind of model."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat_runtime.localization import add_catalogs

if TYPE_CHECKING:
    from dikkat.tasks.classification.classifier import Classification, Classifier
    from dikkat.tasks.embedding.embedder import Embedder
    from dikkat.tasks.language_model.language_model import Continuation, LanguageModel
    from dikkat.tasks.loading import load
    from dikkat.tasks.translation.translator import Translation, Translator

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
    "Classification": "classification.classifier",
    "Classifier": "classification.classifier",
    "Continuation": "language_model.language_model",
    "Embedder": "embedding.embedder",
    "LanguageModel": "language_model.language_model",
    "Translation": "translation.translator",
    "Translator": "translation.translator",
    "load": "loading",
}

add_catalogs(Path(__file__).parents[1])


def __getattr__(name: str) -> Any:
    # on first use, so that translation on the native engine does not wait for torch
    if name in _HOMES:
        return getattr(import_module(f"dikkat.tasks.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dikkat.tasks' has no attribute {name!r}")
