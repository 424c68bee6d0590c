"""Load the tokenizers of a run, for all kinds of models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.run.config import section
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TARGET_TOKENIZER, TOKENIZER
from dikkat_runtime.text.tokenizer import Tokenizer


def load_tokenizer(run: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """Return the tokenizer of a run. Raises `MissingInputError`, or `DataError` where it does not fit the model."""
    language = section(config, "data", run).get("source_language", "")
    return Tokenizer.load(checked(run, TOKENIZER), vocab_size, str(language))


def load_tokenizers(run: Path, config: Mapping[str, Any], settings: ModelSettings) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target of a translator, which may be one. Raises as `load_tokenizer`."""
    source = load_tokenizer(run, config, settings.vocab_size)
    data = section(config, "data", run)
    language = str(data.get("target_language", ""))
    if data.get("vocabularies") == "shared_ids":
        return source, Tokenizer.load(checked(run, TARGET_TOKENIZER), settings.vocab_size, language)
    if settings.target_vocab_size is None:
        return source, source
    return source, Tokenizer.load(
        checked(run, TARGET_TOKENIZER), settings.target_vocab_size, language, "target_vocab_size"
    )
