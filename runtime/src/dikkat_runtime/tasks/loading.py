"""The tokenizer of a run, for all kinds of models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat_runtime.engine.run_directory import section
from dikkat_runtime.text.tokenizer import Tokenizer


def load_tokenizer(run: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """The vocabulary of a run. Raises `MissingInputError`, or `DataError` where it does not fit the model."""
    language = section(config, "data", run).get("source_language", "")
    return Tokenizer.load(run / "tokenizer.json", vocab_size, str(language))
