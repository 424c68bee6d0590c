"""Text in, text out: the jobs that users ask for, built from all lower layers."""

from __future__ import annotations

from pathlib import Path

from dikkat.errors import UsageError
from dikkat.pipelines.translation import Translation, Translator
from dikkat.run_directory import RunDirectory

__all__ = ["Translation", "Translator", "load"]


def load(path: str | Path) -> Translator:
    """What was trained into the run directory `path`. Raises `UsageError` for a task this version does not know."""
    task = RunDirectory.open(Path(path)).read_config().get("task")
    if task != "translator":
        raise UsageError(f'{path}: holds a "{task}", which this version cannot load')
    return Translator.load(path)
