"""Build a translator with random weights from the settings of a run."""

from __future__ import annotations

from dikkat.config import RunConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory


def new_translator(run: RunDirectory, config: RunConfig) -> EncoderDecoder:
    """Build the model of the translator in `run`. Raises `UsageError` for settings that fit no model."""
    return build_model(config.model, 0)
