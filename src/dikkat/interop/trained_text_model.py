"""Read a run of a classifier or a language model to be written for another toolkit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.config import ClassifierConfig, LanguageModelConfig, ModelConfig
from dikkat.data.corpus import Corpus
from dikkat.interop.exported_texts import fast_tokenizer_files, lowercases_dotted
from dikkat.interop.trained_network import config_of, sample_texts, trained_network
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import Factory
from dikkat.models.language_model import LanguageModel
from dikkat.nn.masks import causal_mask
from dikkat.nn.pooling import AttentionPooling
from dikkat.torch_engine.texts import TorchLanguageModel
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.run.config import labels_of, read_config
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TOKENIZER
from dikkat_runtime.special_tokens import PAD_ID, SpecialTokens
from dikkat_runtime.tasks.classifier import MIN_PROBABILITY, decision_of, read_ids, require_no_word_table
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, ForeignTokenizer, load_tokenizer, special_tokens_of
from dikkat_runtime.text.tokenizer import Tokenizer, read_tokenizer

# Read a run of a classifier to be written for another toolkit: settings, weights, tokenizer, and what it answers.

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
        return [read_ids(self.tokenizer, ids, self.head.max_tokens, self.head.beginning) for ids in encoded]

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


# Read a run of a language model to be written for another toolkit: settings, weights, tokenizer, what it writes.

MAX_OUTPUT_LENGTH = 32
"""Most tokens that are written after a sample prompt."""
_PROMPT = 12
"""Tokens of a sample prompt from the held-out text."""
_GREEDY = GenerationOptions(temperature=0.0)
_MAX_PROMPT_LENGTH = 200
"""Characters."""


@dataclass(frozen=True, slots=True)
class TrainedLanguageModel:
    """Hold a language model of a run directory, trained or imported, with all that other toolkits want to know."""

    run: Path
    model: ModelConfig
    head: LanguageModelConfig
    network: LanguageModel
    """In evaluation mode."""
    tokenizer: AnyTokenizer
    tokenizer_settings: Mapping[str, Any]
    """Its JSON."""
    special_tokens: SpecialTokens

    @classmethod
    def open(cls, run: Path) -> TrainedLanguageModel:
        """Read the run directory `run`.

        Raises `UsageError` for a model of another kind, and for one that fills in hidden tokens, which cannot write on;
        `MissingInputError` or `DataError` naming the file that is missing or damaged.
        """
        config = config_of(read_config(run, "lm"), run)
        head = config.language_model
        if head.objective == "masked":
            raise UsageError(
                "{run}: was trained to fill in hidden tokens (objective masked); it cannot continue a text", run
            )
        network = trained_network(run, lambda: Factory(config.model).language_model(head.objective))
        path = checked(run, TOKENIZER)
        tokenizer = load_tokenizer(path, config.model.vocab_size, config.data.source_language)
        content, special_tokens = read_tokenizer(path)[0], special_tokens_of(tokenizer, head.chat)
        return cls(run, config.model, head, network, tokenizer, content, special_tokens)

    @property
    def lowercases_dotted(self) -> bool:
        """Return whether texts are lower-cased by the rule of Turkish; see `exported_texts.lowercases_dotted`."""
        if isinstance(self.tokenizer, ForeignTokenizer):
            return False
        return lowercases_dotted(self.tokenizer_settings, self.tokenizer.language)

    @property
    def longest(self) -> int:
        """Return the most tokens that the model sees at once, as in training."""
        context = self.head.context
        return min(context, self.model.max_positions) if self.model.positions == "learned" else context

    @property
    def longest_output(self) -> int:
        """Return the most tokens that are written after a sample prompt."""
        return min(MAX_OUTPUT_LENGTH, self.longest // 2)

    @property
    def usual_output(self) -> int:
        """Return the most tokens that programs write unless they are told otherwise."""
        return max(1, min(100, self.longest // 2))

    @property
    def special_ids(self) -> dict[str, int]:
        """Return the ids of padding, begin and end, those that it has."""
        marks, pad = self.special_tokens, PAD_ID
        if isinstance(self.tokenizer, ForeignTokenizer):
            # padding is masked, so that any mark will do; a word would be shown in the text of a batch
            pad = self.tokenizer.pad_id if marks.end is None else marks.end
        ids = {"pad_token_id": pad, "bos_token_id": marks.begin, "eos_token_id": marks.end}
        return {name: number for name, number in ids.items() if number is not None}

    def tokenizer_files(self) -> dict[str, dict[str, Any]]:
        """Return the files of its tokenizer, which adds no marks; a foreign one stays as it is."""
        if not isinstance(self.tokenizer, ForeignTokenizer):
            return fast_tokenizer_files(self.tokenizer_settings, self.longest, add_eos=False)
        labels = {
            name.removesuffix("_id"): self.tokenizer.pieces([number])[0] for name, number in self.special_ids.items()
        }
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **labels,
            "model_max_length": self.longest,
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
        }
        return {"tokenizer.json": dict(self.tokenizer_settings), "tokenizer_config.json": settings}

    def prompts(self, count: int) -> list[str]:
        """Return `count` prompts to try an export with: parts of the held-out text, or of the phrasebook's sentences.

        There may be fewer. Raises `UsageError` where there is none.
        """
        prompts = self._fitting(self._held_out(count))
        if len(prompts) < count:
            prompts += sample_texts(self.run, count, _MAX_PROMPT_LENGTH, self._begun)
        if not prompts:
            raise UsageError(
                "{run}: no sample prompt fits into the {longest} tokens that the model sees, so an export cannot be "
                "compared with the run"
            ).fill(self.run, self.longest)
        return prompts[:count]

    def greedy(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the ids that the network writes after each prompt, at most `longest_output` before an end mark."""
        rows: list[list[int]] = [[] for _ in prompts]
        for length in sorted(set(map(len, prompts))):
            numbers = [number for number, prompt in enumerate(prompts) if len(prompt) == length]
            tokens = np.array([list(prompts[number]) for number in numbers])
            forbidden = self.special_tokens.never_written
            writer = TextWriter(TorchLanguageModel(self.network), tokens, self.longest, _GREEDY, forbidden)
            steps = [writer.step() for _ in range(self.longest_output)]
            for number, row in zip(numbers, zip(*steps, strict=True), strict=True):
                rows[number] = self.before_end(row)
        return rows

    def before_end(self, row: Sequence[int]) -> list[int]:
        """Return the ids before the first end mark."""
        end = self.special_tokens.end
        return list(row[: row.index(end)] if end in row else row)

    def in_float64(self) -> TrainedLanguageModel:
        """Return a model that computes in float64, as a measure of what others compute in float32."""
        return replace(self, network=deepcopy(self.network).double())

    @torch.inference_mode()
    def logits(self, prompt: Sequence[int], written: Sequence[int]) -> Tensor:
        """Return the logits (P + T, V) at every token of a prompt and of what was written after it."""
        tokens = torch.tensor([[*prompt, *written]])
        mask = causal_mask(tokens.shape[1])
        if self.head.objective == "prefix":
            # the prompt is read both ways
            mask = mask | (torch.arange(tokens.shape[1]) < len(prompt))
        logits: Tensor = self.network(tokens, mask)
        return logits[0]

    def _held_out(self, count: int) -> list[str]:
        """Return up to `count` parts of the text that training held out, of `_PROMPT` tokens or as many as fit."""
        try:
            corpus = Corpus.open(self.run / "corpus", "validation", vocab_size=self.model.vocab_size)
        except (MissingInputError, DataError):
            # an imported or a copied run has none
            return []
        length = min(_PROMPT, self.longest - self.longest_output)
        last = len(corpus.ids) - length
        starts = range(0, max(0, last), max(1, last // count))
        texts = self.tokenizer.decode_batch([corpus.ids.read(start, start + length).tolist() for start in starts])
        # a character that was cut in two is not text
        return list(dict.fromkeys(text for text in texts if "\ufffd" not in text))[:count]

    def _begun(self, texts: list[str]) -> list[str]:
        """Return the first halves of sentences, or as much of them as fits."""
        most = self.longest - self.longest_output
        ids = self.tokenizer.encode_batch([text[: max(1, len(text) // 2)] for text in texts])
        texts = self.tokenizer.decode_batch([row[:most] for row in ids])
        return self._fitting([text for text in texts if "\ufffd" not in text])

    def _fitting(self, texts: list[str]) -> list[str]:
        """Return the texts after which there is room for what is written."""
        most = self.longest - self.longest_output
        ids = self.tokenizer.encode_batch(texts)
        return [text for text, row in zip(texts, ids, strict=True) if 0 < len(row) <= most]
