"""Every default of the toolkit, each field with its own description.

A run is described by one `RunConfig`: it is what `config.json` of a run directory holds, what `--config F.toml`
overrides, and what the presets name. An unknown key is an error that names the nearest known one.
"""

from dikkat.config.model import ABSOLUTE_POSITIONS, MAX_VALUE, ModelConfig, Section
from dikkat.config.run import (
    ClassifierConfig,
    DataConfig,
    DecodingConfig,
    EncoderConfig,
    LanguageModelConfig,
    RunConfig,
    TokenizerConfig,
    TrainingConfig,
)
from dikkat.config.settings import build_config, first_complaint, merge, preset

__all__ = [
    "ABSOLUTE_POSITIONS",
    "MAX_VALUE",
    "ClassifierConfig",
    "DataConfig",
    "DecodingConfig",
    "EncoderConfig",
    "LanguageModelConfig",
    "ModelConfig",
    "RunConfig",
    "Section",
    "TokenizerConfig",
    "TrainingConfig",
    "build_config",
    "first_complaint",
    "merge",
    "preset",
]
