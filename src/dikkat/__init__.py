"""dikkat: a Transformer toolkit that trains on the machine you have and shows exactly what it attends to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat_runtime import __version__ as _runtime_version
from dikkat_runtime.localization import add_catalogs

if TYPE_CHECKING:
    from dikkat.tasks import (
        Classification,
        Classifier,
        Continuation,
        Embedder,
        LanguageModel,
        Translation,
        Translator,
        classifier_of,
        compare,
        language_model_of,
        load,
        show,
        translator_of,
    )

__version__ = "0.1.0"
if _runtime_version != __version__:
    raise ImportError(f"dikkat {__version__} needs dikkat-runtime {__version__}, not {_runtime_version}")

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

add_catalogs(Path(__file__).parent)


def __getattr__(name: str) -> Any:
    # on first use, so that `import dikkat` and `dikkat --help` do not wait for torch
    if name in __all__:
        from dikkat import tasks

        return getattr(tasks, name)
    raise AttributeError(f"module 'dikkat' has no attribute {name!r}")
