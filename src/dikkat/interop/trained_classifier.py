"""Read a run of a classifier to be written for another toolkit: settings, weights, tokenizer, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.data.labelled import shortened
from dikkat.interop.exported_texts import lowercases_dotted
from dikkat.interop.fast_tokenizer import fast_tokenizer_files
from dikkat.interop.trained_network import config_of, sample_texts, trained_network
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import Factory
from dikkat.nn.pooling import AttentionPooling
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.config import labels_of, read_config
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.classifier import MIN_PROBABILITY, decision_of, require_no_word_table
from dikkat_runtime.text.tokenizer import Tokenizer, read_tokenizer

_MAX_SAMPLE_LENGTH = 20_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class TrainedClassifier:
    """Hold a classifier of a run directory, with all that other toolkits want to know of it."""

    run: Path
    model: ModelConfig
    head: ClassifierConfig
    network: EncoderClassifier
    """In evaluation mode."""
    tokenizer: Tokenizer
    tokenizer_settings: Mapping[str, Any]
    """Its JSON."""
    labels: tuple[str, ...]
    temperature: float
    """Divides the logits."""
    cuts: tuple[float, ...]
    """Smallest probability of each label where a text may have several."""
    language: str

    @classmethod
    def open(cls, run: Path) -> TrainedClassifier:
        """Read the run directory `run`.

        Raises `UsageError` for a model of another kind, and `MissingInputError` or `DataError` naming the file that is
        missing or damaged.
        """
        settings = read_config(run, "classifier")
        config, labels = config_of(settings, run), labels_of(run, settings)
        network = trained_network(run, lambda: Factory(config.model).classifier(config.classifier, len(labels)))
        path, language = checked(run, TOKENIZER), config.data.source_language
        content = read_tokenizer(path)
        tokenizer = Tokenizer.checked(path, *content, config.model.vocab_size, language)
        require_no_word_table(run, settings)
        decision = decision_of(run, config.classifier.model_dump(), len(labels))
        cuts = decision.cuts or (MIN_PROBABILITY,) * len(labels)
        tokenizing = tokenizer, content[0]
        return cls(
            run, config.model, config.classifier, network, *tokenizing, labels, decision.temperature, cuts, language
        )

    @property
    def is_multi_label(self) -> bool:
        """Return whether a text has any number of labels."""
        return self.head.objective == "multi_label"

    @property
    def cut_settings(self) -> dict[str, list[float]]:
        """Return the cuts as a setting of an exported folder; nothing where each text has one label."""
        return {"cuts": list(self.cuts)} if self.is_multi_label else {}

    @property
    def lowercases_dotted(self) -> bool:
        """Return whether texts are lower-cased by the rule of Turkish; see `exported_texts.lowercases_dotted`."""
        return lowercases_dotted(self.tokenizer_settings, self.language)

    @property
    def longest(self) -> int:
        """Return the most ids that are read of a text, the begin mark included."""
        most = self.head.max_tokens + 1
        return min(most, self.model.max_positions) if self.model.positions == "learned" else most

    @property
    def pools_by_attention(self) -> bool:
        """Return whether a learned query attends to the positions of a text."""
        return isinstance(self.network.pooling, AttentionPooling)

    def tokenizer_files(self) -> dict[str, dict[str, Any]]:
        """Return the files of its tokenizer, which cuts white space off both ends and puts the begin mark first."""
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        own = self.tokenizer_settings.get("normalizer")
        normalizer = strip if own is None else {"type": "Sequence", "normalizers": [strip, own]}
        settings = {**self.tokenizer_settings, "normalizer": normalizer}
        return fast_tokenizer_files(settings, self.longest, add_bos=True, add_eos=False)

    def samples(self, count: int) -> list[str]:
        """Return `count` texts to try an export with, of which the network can read each.

        Raises `UsageError` where there is none.
        """
        texts = sample_texts(self.run, count, _MAX_SAMPLE_LENGTH, self._readable)
        if not texts:
            raise UsageError(
                "{run}: no sample text fits into model.max_positions = {max_positions}, so an export cannot be "
                "compared with the run; train with more"
            ).fill(self.run, self.model.max_positions)
        return texts

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids that the network reads of each text: the begin mark, and of a long text both ends."""
        encoded = self.tokenizer.encode_batch([text.strip() for text in texts])
        return [[BOS_ID, *shortened(ids, self.head.max_tokens, self.head.beginning)] for ids in encoded]

    def in_float64(self) -> TrainedClassifier:
        """Return a classifier that computes in float64, as a measure of what others compute in float32."""
        return replace(self, network=deepcopy(self.network).double())

    @torch.inference_mode()
    def logits(self, row: Sequence[int]) -> Tensor:
        """Return the logits (C,) of a text, divided by the temperature: their softmax is what the run answers.

        Of a text with any number of labels it is the logistic function of each.
        """
        logits: Tensor = self.network(*_batch(row))
        return logits[0] / self.temperature

    @torch.inference_mode()
    def pooling_weights(self, row: Sequence[int]) -> Tensor:
        """Return the share (S,) that each position has in the pooled vector."""
        ids, mask = _batch(row)
        return self.network.pooling.weights(self.network.encode(ids, mask), mask)[0]

    def _readable(self, texts: list[str]) -> list[str]:
        return [text for text, row in zip(texts, self.rows(texts), strict=True) if 1 < len(row) <= self.longest]


def _batch(row: Sequence[int]) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([list(row)])
    return ids, torch.ones_like(ids, dtype=torch.bool)
