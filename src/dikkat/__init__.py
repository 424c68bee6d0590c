"""dikkat: a Transformer toolkit that trains on the machine you have and shows exactly what it attends to."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat_runtime import __version__ as _runtime_version
from dikkat_runtime.localization import add_catalogs

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

__version__ = "0.1.0"
if _runtime_version != __version__:
    raise ImportError(f"dikkat {__version__} needs dikkat-runtime {__version__}, not {_runtime_version}")

__all__ = [
    "Classification", "Classifier", "Continuation", "Embedder", "LanguageModel", "Translation", "Translator",
    "classifier_of", "compare", "language_model_of", "load", "show", "translator_of",
]  # fmt: skip

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

add_catalogs(Path(__file__).parent)


def __getattr__(name: str) -> Any:
    # on first use, so that `import dikkat`, `dikkat --help` and the native engine do not wait for torch
    if name in _HOMES:
        module, _, attribute = _HOMES[name].partition(":")
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'dikkat' has no attribute {name!r}")
