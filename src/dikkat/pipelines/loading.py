"""The model of a run directory, whatever was trained into it."""

from __future__ import annotations

from pathlib import Path

from dikkat.pipelines.classification import Classifier
from dikkat.pipelines.embedding import Embedder
from dikkat.pipelines.language_model import LanguageModel
from dikkat.pipelines.translation import Translator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import UsageError


def load(path: str | Path) -> Translator | LanguageModel | Classifier | Embedder:
    """What was trained into the run directory `path`. Raises `UsageError` for a task this version does not know."""
    task = RunDirectory.open(Path(path)).read_config().get("task")
    if task == "lm":
        return LanguageModel.load(path)
    if task == "classifier":
        return Classifier.load(path)
    if task == "encoder":
        return Embedder.load(path)
    if task != "translator":
        raise UsageError(f'{path}: holds a "{task}", which this version cannot load')
    return Translator.load(path)
