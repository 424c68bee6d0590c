"""Load the tokenizers of a run, for all kinds of models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from dikkat_runtime.errors import DataError
from dikkat_runtime.run.config import section
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import CONFIG, TARGET_TOKENIZER, TOKENIZER
from dikkat_runtime.text.tokenizer import Tokenizer


class Sizes(Protocol):
    """Describe the vocabulary sizes in the settings of a model."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def target_vocab_size(self) -> int | None: ...


def load_tokenizer(run: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """Return the tokenizer of a run. Raises `MissingInputError`, or `DataError` where it does not fit the model."""
    language = section(config, "data", run).get("source_language", "")
    return Tokenizer.load(checked(run, TOKENIZER), vocab_size, str(language))


def load_tokenizers(run: Path, config: Mapping[str, Any], sizes: Sizes) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target of a translator, which may be one. Raises as `load_tokenizer`."""
    data, size = section(config, "data", run), sizes.target_vocab_size
    kind = data.get("vocabularies", "joint")
    if (kind == "separate") != (size is not None):
        raise DataError(
            "{run}: damaged: data.vocabularies is {kind}, but model.target_vocab_size is {size}; restore the file"
        ).fill(run / CONFIG, kind, size)
    source = load_tokenizer(run, config, sizes.vocab_size)
    language = str(data.get("target_language", ""))
    if kind == "shared_ids":
        return source, Tokenizer.load(checked(run, TARGET_TOKENIZER), sizes.vocab_size, language)
    if size is None:
        return source, source
    return source, Tokenizer.load(checked(run, TARGET_TOKENIZER), size, language, "target_vocab_size")
