"""Build a classifier with random weights from the settings of a run."""

from __future__ import annotations

from dikkat.config import RunConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory


def new_classifier(run: RunDirectory, config: RunConfig) -> EncoderClassifier:
    """Build the model of the classifier in `run`. Raises `UsageError` for settings that fit no model."""
    return build_classifier(config.model, config.classifier, len(run.labels()), 0)
