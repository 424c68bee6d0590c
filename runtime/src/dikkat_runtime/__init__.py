"""dikkat-runtime: run models that dikkat trained, without PyTorch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dikkat_runtime.tasks.classifier import Classification, Classifier
    from dikkat_runtime.tasks.embedder import Embedder
    from dikkat_runtime.tasks.generator import Generator
    from dikkat_runtime.tasks.translator import Completion, Translation, Translator
    from dikkat_runtime.text.glossary import Glossary

__version__ = "0.1.0"
__all__ = [
    "Classification", "Classifier", "Completion", "Embedder", "Generator", "Glossary", "Translation", "Translator",
]  # fmt: skip

_HOMES = {
    "Classification": "tasks.classifier",
    "Classifier": "tasks.classifier",
    "Completion": "tasks.translator",
    "Embedder": "tasks.embedder",
    "Generator": "tasks.generator",
    "Glossary": "text.glossary",
    "Translation": "tasks.translator",
    "Translator": "tasks.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that the command starts fast."""
    if name in __all__:
        return getattr(import_module(f"dikkat_runtime.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dikkat_runtime' has no attribute {name!r}")
