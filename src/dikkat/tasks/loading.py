"""Load the model of a run directory, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dikkat.run_directory import RunDirectory
from dikkat.tasks.kinds import load_part
from dikkat_runtime.messages import msg

if TYPE_CHECKING:
    from dikkat.tasks.classification.classifier import Classifier
    from dikkat.tasks.embedding.embedder import Embedder
    from dikkat.tasks.language_model.language_model import LanguageModel
    from dikkat.tasks.translation.translator import Translator


def load(path: str | Path) -> Translator | LanguageModel | Classifier | Embedder:
    """Load the model of the run directory `path`. Raises `UsageError` for an unknown kind."""
    run = RunDirectory.open(Path(path))
    model: Translator | LanguageModel | Classifier | Embedder
    model = load_part(run, "load", msg("which this version cannot load"))(path)
    return model
