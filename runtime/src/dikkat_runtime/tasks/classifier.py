"""The classifier: lines of text in, labels and probabilities out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.activations import softmax
from dikkat_runtime.engine.run_directory import read_config, read_metrics, read_step, section
from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.engine.stack import Linear, Stack
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.loading import load_stack_weights, load_tokenizer, padded
from dikkat_runtime.text.tokenizer import Tokenizer

BATCH_SIZE, WINDOW = 64, 1024
"""Texts classified at once, and lines read ahead, so that texts of like length share a batch."""


@dataclass(frozen=True, slots=True)
class Classification:
    """What a classifier makes of one text."""

    label: str
    """The likeliest class; empty for a text without words."""
    probability: float
    """Of that class, calibrated on the validation part; NaN for a text without words."""
    probabilities: dict[str, float]
    """Of every class, in the order of training; empty for a text without words."""


NOTHING = Classification("", math.nan, {})


class ClassifierModel:
    """Encoder, pooling and output layer."""

    def __init__(self, settings: ModelSettings, weights: Weights, config: Mapping[str, Any], num_classes: int) -> None:
        around = config["classifier"]
        self.stack = Stack(weights, settings, "encoder", settings.encoder_layers, "embedding.weight")
        self.pooling = str(around.get("pooling", "mean"))
        outputs = 1 if around.get("objective") == "binary" else num_classes
        self.output = Linear(weights, "output", outputs, settings.model_dim)
        self.query = weights.array("pooling.query", settings.model_dim) if self.pooling == "attention" else None
        weights.check_all_used()

    def pooled(self, tokens: Array, mask: Array) -> Array:
        """(B, D): one vector from the states of a text, in which padding has no part."""
        states = self.stack(tokens, mask[:, None, None, :])
        if self.pooling == "first":
            return states[:, 0]
        if self.query is not None:
            scores = states @ self.query * np.float32(states.shape[-1] ** -0.5)
            shares = softmax(np.where(mask, scores, np.float32(-np.inf)))
        else:
            shares = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        # (B, 1, S) x (B, S, D) -> (B, D)
        return (shares[:, None, :] @ states)[:, 0]

    def logits(self, tokens: Array, mask: Array) -> Array:
        """(B, C); of a single output, the logit of the second of two classes, that of the first is 0."""
        logits = self.output(self.pooled(tokens, mask))
        return np.pad(logits, ((0, 0), (1, 0))) if logits.shape[1] == 1 else logits


class Classifier:
    """A trained classifier with its classes and tokenizer."""

    def __init__(
        self,
        model: ClassifierModel,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        settings: Mapping[str, Any],
        temperature: float,
    ) -> None:
        """`settings` are those of the section `classifier`; `temperature` divides the logits (Guo et al. 2017)."""
        self.model, self.tokenizer, self.labels = model, tokenizer, tuple(labels)
        self.max_tokens, self.beginning = int(settings["max_tokens"]), float(settings["beginning"])
        self.temperature = temperature

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """The classifier of a run directory, in float32.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind or with a setting that needs PyTorch.
        """
        run = Path(path)
        config = read_config(run, "classifier")
        around, labels = section(config, "classifier", run), config.get("labels")
        if around.get("objective", "cross_entropy") not in ("cross_entropy", "binary"):
            raise UsageError(f"{run}: this runtime does not compute classifier.objective = {around['objective']}")
        if (pooling := around.get("pooling", "mean")) not in ("mean", "first", "attention"):
            raise UsageError(f"{run}: this runtime does not compute classifier.pooling = {pooling}; use dikkat")
        if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
            raise DataError(f"{run / 'config.json'}: damaged: names no labels; restore the file")
        settings, weights = load_stack_weights(run, config)
        model = ClassifierModel(settings, weights, config, len(labels))
        tokenizer = load_tokenizer(run, config, settings.vocab_size)
        return cls(model, tokenizer, labels, around, _temperature(run, bool(around.get("balance"))))

    def classify(self, texts: Iterable[str]) -> list[Classification]:
        """Classify all of `texts`; one without words is answered by `NOTHING`."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[Classification]:
        """Classify lines in their order; at most `window` of them are read ahead."""
        reader = iter(lines)
        while texts := [line.strip() for line in islice(reader, window)]:
            found = [NOTHING] * len(texts)
            rows = [self.read(ids) if ids else [] for ids in self.tokenizer.encode_batch(texts)]
            order = sorted((number for number, row in enumerate(rows) if row), key=lambda number: -len(rows[number]))
            for start in range(0, len(order), batch_size):
                batch = order[start : start + batch_size]
                shares = self.probabilities([rows[number] for number in batch])
                for number, row in zip(batch, shares.tolist(), strict=True):
                    best = max(range(len(row)), key=row.__getitem__)
                    by_label = dict(zip(self.labels, row, strict=True))
                    found[number] = Classification(self.labels[best], row[best], by_label)
            yield from found

    def read(self, ids: Sequence[int]) -> list[int]:
        """What the model reads of a text: the begin mark, and of a long text its beginning and its end."""
        if len(ids) > self.max_tokens:
            first = round(self.max_tokens * self.beginning)
            ids = [*ids[:first], *ids[len(ids) - (self.max_tokens - first) :]]
        return [BOS_ID, *ids]

    def probabilities(self, rows: list[list[int]]) -> Array:
        """(B, C) of what the model reads of B texts."""
        tokens, mask = map(np.array, padded(rows))
        return softmax(self.model.logits(tokens, mask).astype(np.float64) / self.temperature)


def _temperature(run: Path, balanced: bool) -> float:
    """The temperature that was found for the weights that were kept. Raises `DataError` where it is not recorded."""
    where, step = run / "metrics.jsonl", read_step(run / "model.safetensors")
    score = "macro_f1" if balanced else "accuracy"
    try:
        kept = [row for row in read_metrics(run) if step in (None, str(row["step"]))]
        temperature = float(max(kept, key=lambda row: float(row[score]))["temperature"])
    except (LookupError, TypeError, ValueError):
        raise DataError(f"{where}: has no temperature of the weights that were kept; restore the file") from None
    if not 0.0 < temperature < math.inf:
        raise DataError(f"{where}: damaged: the temperature is {temperature}; restore the file")
    return temperature
