"""Load the tokenizers of a run, for all kinds of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class VocabularySizes:
    """The vocabulary sizes of a run, whatever engine computes its model."""

    vocab_size: int
    target_vocab_size: int | None

    @classmethod
    def of(cls, run: Path, config: Mapping[str, Any]) -> VocabularySizes:
        """Return those of the section `model`. Raises `DataError` where there are none."""
        model = section(config, "model", run)
        size, target_size = model.get("vocab_size"), model.get("target_vocab_size")
        if type(size) is not int or not (target_size is None or type(target_size) is int):
            raise DataError("{run}: damaged: its sizes of vocabularies are not numbers; restore the file", run / CONFIG)
        return cls(size, target_size)


def load_tokenizer(run: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a run. Raises `MissingInputError`, or `DataError` where it does not fit the model."""
    language = section(config, "data", run).get("source_language", "")
    return Tokenizer.load(checked(run, TOKENIZER), VocabularySizes.of(run, config).vocab_size, str(language))


def load_tokenizers(run: Path, config: Mapping[str, Any], sizes: Sizes) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target of a translator, which may be one. Raises as `load_tokenizer`."""
    data, size = section(config, "data", run), sizes.target_vocab_size
    kind = data.get("vocabularies", "joint")
    if (kind == "separate") != (size is not None):
        raise DataError(
            "{run}: damaged: data.vocabularies is {kind}, but model.target_vocab_size is {size}; restore the file"
        ).fill(run / CONFIG, kind, size)
    source = Tokenizer.load(checked(run, TOKENIZER), sizes.vocab_size, str(data.get("source_language", "")))
    language = str(data.get("target_language", ""))
    if kind == "shared_ids":
        return source, Tokenizer.load(checked(run, TARGET_TOKENIZER), sizes.vocab_size, language)
    if size is None:
        return source, source
    return source, Tokenizer.load(checked(run, TARGET_TOKENIZER), size, language, "target_vocab_size")
