"""What all kinds of models load in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat_runtime.engine.run_directory import TARGET_TOKENIZER, read_weights, section
from dikkat_runtime.engine.settings import NUMPY, ModelSettings, model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.text.tokenizer import Tokenizer


def load_tokenizer(run: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """The vocabulary of a run. Raises `MissingInputError`, or `DataError` where it does not fit the model."""
    language = section(config, "data", run).get("source_language", "")
    return Tokenizer.load(run / "tokenizer.json", vocab_size, str(language))


def load_tokenizers(run: Path, config: Mapping[str, Any], settings: ModelSettings) -> tuple[Tokenizer, Tokenizer]:
    """The vocabularies of source and target of a translator, which may be one. Raises as `load_tokenizer`."""
    source = load_tokenizer(run, config, settings.vocab_size)
    if settings.target_vocab_size is None:
        return source, source
    language = section(config, "data", run).get("target_language", "")
    return source, Tokenizer.load(
        run / TARGET_TOKENIZER, settings.target_vocab_size, str(language), "target_vocab_size"
    )


def load_stack_weights(run: Path, config: Mapping[str, Any]) -> tuple[ModelSettings, Weights]:
    """Settings and weights of a model that is computed over numpy arrays, in float32.

    Raises `MissingInputError` or `DataError`, and `UsageError` for a setting that needs PyTorch.
    """
    settings = model_settings(config, str(run / "config.json"), NUMPY)
    path = run / "model.safetensors"
    return settings, Weights(read_weights(path), str(path), in_bytes=False, threads=available_threads())


def padded(rows: list[list[int]]) -> tuple[list[list[int]], list[list[bool]]]:
    """Ids of one length, with zeros behind them, and the mask that is True at real ones."""
    width = max(map(len, rows))
    return (
        [[*row, *[0] * (width - len(row))] for row in rows],
        [[place < len(row) for place in range(width)] for row in rows],
    )
