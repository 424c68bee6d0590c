"""Classify lines of text by any engine: labels and probabilities."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.activations import softmax
from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.text_contract import ClassifyingEngine, Rows
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import labels_of, read_config, section
from dikkat_runtime.run.metrics import metrics_of_run
from dikkat_runtime.run.weights import read_step
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.tasks.loading import load_tokenizer
from dikkat_runtime.tasks.opening import open_classifier_engine
from dikkat_runtime.text.tokenizer import Tokenizer

BATCH_SIZE, WINDOW = 64, 1024
"""Texts classified at once, and lines read ahead, so that texts of like length share a batch."""
BATCH_TOKENS = 16384
"""Tokens of a batch, padding included; a longer text goes alone."""
LEAST_PROBABILITY = 0.5
"""Smallest probability of a label where a text may have several."""


@dataclass(frozen=True, slots=True)
class Classification:
    """The classes of one text and their probabilities."""

    label: str
    """The likeliest class; empty for a text without words."""
    probability: float
    """Of that class, calibrated on the validation part; NaN for a text without words."""
    probabilities: dict[str, float]
    """Of every class, in the order of training; empty for a text without words."""
    labels: tuple[str, ...] = ()
    """Labels of the text, the likeliest first: its class, or all of at least a half where there may be several."""
    num_tokens: int = 0
    """Tokens of the text; of more than `max_tokens` only the beginning and the end were read."""


NOTHING = Classification("", math.nan, {})
"""The answer to a text without words."""


class Classifier:
    """A trained classifier with its classes and tokenizer."""

    def __init__(
        self,
        engine: ClassifyingEngine,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        settings: Mapping[str, Any],
        temperature: float = 1.0,
        *,
        language: str | None = None,
    ) -> None:
        """`settings` are those of the section `classifier`; `language` is that of the texts, else the tokenizer's."""
        self.engine, self.tokenizer, self.labels = engine, tokenizer, tuple(labels)
        self.language = tokenizer.language if language is None else language
        self.max_tokens, self.beginning = int(settings["max_tokens"]), float(settings["beginning"])
        self.temperature = temperature
        """Divides the logits; found on the validation part (Guo et al. 2017)."""
        self.is_multi_label = settings.get("objective") == "multi_label"
        """Whether a text gets any number of labels."""

    @classmethod
    def load(cls, path: str | Path, *, precision: PrecisionName = "float32", threads: int | None = None) -> Classifier:
        """Return the classifier of a run directory, by the native engine.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind or with a setting that needs PyTorch.
        """
        run = Path(path)
        config = read_config(run, "classifier")
        engine = open_classifier_engine(run, config, precision, threads)
        tokenizer = load_tokenizer(run, config, engine.stack.settings.vocab_size)
        settings = section(config, "classifier", run)
        return Classifier(engine, tokenizer, labels_of(run, config), settings, temperature_of(run, settings))

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision and threads."""
        return self.engine.info

    def classify(self, texts: Iterable[str]) -> list[Classification]:
        """Classify all of `texts`; the answer to one without words is `NOTHING`."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[Classification]:
        """Classify an endless stream in order, in constant memory.

        At most `window` lines are read ahead; a window of 1 answers each line before it reads the next. Batch size and
        neighbours do not change a probability by more than rounding.
        """
        reader = iter(lines)
        while texts := list(islice(reader, window)):
            encoded = self.encode(texts)
            answers = [NOTHING] * len(texts)
            rows = [self.read(ids) if ids else [] for ids in encoded]
            for batch in length_batches([len(row) for row in rows], batch_size, BATCH_TOKENS):
                for index, shares in zip(batch, self.probabilities([rows[index] for index in batch]), strict=True):
                    answers[index] = self._classification(shares, len(encoded[index]))
            yield from answers

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return all ids of each text; none for a text without words."""
        return self.tokenizer.encode_batch([text.strip() for text in texts], self.language)

    def read(self, ids: Sequence[int]) -> list[int]:
        """Return the ids that the model reads: the begin mark, and of a long text its beginning and its end."""
        if len(ids) > self.max_tokens:
            first = round(self.max_tokens * self.beginning)
            ids = [*ids[:first], *ids[len(ids) - (self.max_tokens - first) :]]
        return [BOS_ID, *ids]

    def probabilities(self, rows: Rows) -> Array:
        """Return probabilities (B, C) of B rows of ids, in float64."""
        scaled = self.engine.logits(rows).astype(np.float64) / self.temperature
        # each label is a decision of its own: the logistic function
        return 0.5 * (1.0 + np.tanh(0.5 * scaled)) if self.is_multi_label else softmax(scaled)

    def _classification(self, shares: Array, num_tokens: int) -> Classification:
        best = int(shares.argmax())
        by_label = dict(zip(self.labels, shares.tolist(), strict=True))
        order = np.argsort(-shares, kind="stable")
        chosen = [index for index in order if shares[index] >= LEAST_PROBABILITY] if self.is_multi_label else [best]
        labels = tuple(self.labels[index] for index in chosen)
        return Classification(self.labels[best], float(shares[best]), by_label, labels, num_tokens)


def written(answer: Classification, labels: Collection[str]) -> str:
    """Return a line of output: the `labels` with their probabilities, likeliest first.

    Nothing for a text without words.
    """
    if not answer.label:
        return f"\t{answer.probability:.4f}"
    ordered = sorted(labels, key=lambda label: -answer.probabilities[label])
    return "\t".join(f"{label}\t{answer.probabilities[label]:.4f}" for label in ordered)


def score_column(settings: Mapping[str, Any]) -> str:
    """Return the column of metrics.jsonl by which weights are kept, from the section `classifier`."""
    if settings.get("objective") == "multi_label":
        return "micro_f1"
    return "macro_f1" if settings.get("balance") else "accuracy"


def temperature_of(run: Path, settings: Mapping[str, Any]) -> float:
    """Return the temperature fitted for the kept weights. Raises `DataError` where it is not recorded."""
    where, step, rows = run / "metrics.jsonl", read_step(run / "model.safetensors"), metrics_of_run(run)
    # weights of an older dikkat do not record their update
    kept = [row for row in rows if step in (None, str(row.get("step")))]
    if not kept:
        raise DataError(f"{where}: has no row of update {step}, whose weights were kept; go on with --resume")
    try:
        best = max(kept, key=lambda row: float(row[score_column(settings)]))
        temperature = float(best["temperature"])
    except (LookupError, TypeError, ValueError):
        raise DataError(f"{where}: damaged: a row has no score or no temperature; restore the file") from None
    if not 0.0 < temperature < math.inf:
        raise DataError(f"{where}: damaged: the temperature is {temperature}; restore the file")
    return temperature
