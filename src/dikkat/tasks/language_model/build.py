"""Build a language model with random weights from the settings of a run."""

from __future__ import annotations

from dikkat.config import RunConfig
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel
from dikkat.run_directory import RunDirectory


def new_language_model(run: RunDirectory, config: RunConfig) -> LanguageModel:
    """Build the model of the language model in `run`. Raises `UsageError` for settings that fit no model."""
    return build_language_model(config.model, config.language_model.objective, 0)
