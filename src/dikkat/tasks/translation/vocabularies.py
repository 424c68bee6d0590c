"""The two vocabularies of a translator, that of the source and that of the target, which may be one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.opening import load_tokenizers
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from dikkat.config import RunConfig


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The tokenizers of a translator; where the vocabulary is joint, both are the same object."""

    source: Tokenizer
    target: Tokenizer
    share_ids: bool = False
    """Whether two tokenizers give the ids of one vocabulary."""

    @property
    def are_joint(self) -> bool:
        """Return whether both sides have one vocabulary."""
        return self.source is self.target or self.share_ids

    @property
    def sizes(self) -> dict[str, int | None]:
        """Return the settings of a model that the vocabularies decide."""
        return {
            "vocab_size": self.source.vocab_size,
            "target_vocab_size": None if self.are_joint else self.target.vocab_size,
        }

    @classmethod
    def train(cls, sources: Sequence[str], targets: Sequence[str], config: RunConfig) -> Vocabularies:
        """Train the tokenizers on the two sides of the training text, joint or separate as `config` says."""
        data = config.data
        if data.vocabularies == "shared_ids":
            raise UsageError("data.vocabularies = shared_ids is for imported translators; choose joint or separate")
        if data.vocabularies == "joint":
            joint = Tokenizer.train(sources, config.tokenizer, (data.source_language, data.target_language), targets)
            return cls(joint, joint)
        return cls(
            Tokenizer.train(sources, config.tokenizer, (data.source_language, "")),
            Tokenizer.train(targets, config.tokenizer, (data.target_language, "")),
        )

    @classmethod
    def load(cls, run: RunDirectory, config: RunConfig) -> Vocabularies:
        """Those of a run from its settings.

        Raises `MissingInputError`, or `DataError` where one is damaged or does not fit the model.
        """
        model, kind = config.model, config.data.vocabularies
        sizes = {"vocab_size": model.vocab_size, "target_vocab_size": model.target_vocab_size}
        tokenizers = load_tokenizers(run.path, {"data": {"vocabularies": kind}, "model": sizes})
        return cls(*tokenizers, share_ids=kind == "shared_ids")

    @classmethod
    def of(cls, translator: Translator) -> Vocabularies:
        share_ids = translator.config.data.vocabularies == "shared_ids"
        return cls(translator.tokenizer, translator.target_tokenizer, share_ids)

    def save(self, run: RunDirectory) -> None:
        """Write them into a run that is prepared. Raises `DiskError` or `CannotCreateError`."""
        self.source.save(run.tokenizer)
        if self.source is self.target:
            # what an interrupted preparation with other settings has left
            run.target_tokenizer.unlink(missing_ok=True)
        else:
            self.target.save(run.target_tokenizer)


def open_corpus(run: RunDirectory, part: str, vocabularies: Vocabularies) -> Corpus:
    """The pairs of a part of the run, of ids that its vocabularies have. Raises `MissingInputError` or `DataError`."""
    target = None if vocabularies.are_joint else vocabularies.target.vocab_size
    return Corpus.open(run.corpus, part, vocab_size=vocabularies.source.vocab_size, target_vocab_size=target)
