"""Train, load and use models from text to text; one folder for each kind of model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dikkat.tasks.in_memory import classifier_of, language_model_of, translator_of
    from dikkat.tasks.inspection.comparison import compare_runs as compare
    from dikkat.tasks.inspection.page import show
    from dikkat.tasks.kinds import load
    from dikkat_runtime.tasks.classifier import Classification, Classifier
    from dikkat_runtime.tasks.embedder import Embedder
    from dikkat_runtime.tasks.generator import Continuation
    from dikkat_runtime.tasks.generator import Generator as LanguageModel
    from dikkat_runtime.tasks.translator import Translation, Translator

__all__ = [
    "Classification",
    "Classifier",
    "Continuation",
    "Embedder",
    "LanguageModel",
    "Translation",
    "Translator",
    "classifier_of",
    "compare",
    "language_model_of",
    "load",
    "show",
    "translator_of",
]

_HOMES = {
    "Classification": "dikkat_runtime.tasks.classifier:Classification",
    "Classifier": "dikkat_runtime.tasks.classifier:Classifier",
    "Continuation": "dikkat_runtime.tasks.generator:Continuation",
    "Embedder": "dikkat_runtime.tasks.embedder:Embedder",
    "LanguageModel": "dikkat_runtime.tasks.generator:Generator",
    "Translation": "dikkat_runtime.tasks.translator:Translation",
    "Translator": "dikkat_runtime.tasks.translator:Translator",
    "classifier_of": "dikkat.tasks.in_memory:classifier_of",
    "compare": "dikkat.tasks.inspection.comparison:compare_runs",
    "language_model_of": "dikkat.tasks.in_memory:language_model_of",
    "load": "dikkat.tasks.kinds:load",
    "show": "dikkat.tasks.inspection.page:show",
    "translator_of": "dikkat.tasks.in_memory:translator_of",
}


def __getattr__(name: str) -> Any:
    # on first use, so that translation on the native engine does not wait for torch
    if name in _HOMES:
        module, _, attribute = _HOMES[name].partition(":")
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'dikkat.tasks' has no attribute {name!r}")
