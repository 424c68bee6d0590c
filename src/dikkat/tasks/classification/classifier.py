"""The classifier: texts in, labels with their probabilities out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dikkat.config import RunConfig
from dikkat.evaluation.calibration import label_probabilities, probabilities
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.prepare import read_ids
from dikkat.tasks.classification.train import kept_temperature
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.training.classification import pad_texts
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.text.tokenizer import Tokenizer

BATCH_SIZE = 64
BATCH_TOKENS = 16384
LEAST_PROBABILITY = 0.5
"""Of a label that a text gets, where it may get several."""


@dataclass(frozen=True, slots=True)
class Classification:
    """What a classifier makes of one text."""

    label: str
    """The likeliest class; empty for a text without words."""
    probability: float
    """Of that class, calibrated on the validation part; NaN for a text without words."""
    probabilities: dict[str, float]
    """Of every class, in the order of training; empty for a text without words."""
    labels: tuple[str, ...]
    """What the text gets, the likeliest first: its class, or where it may have several labels those of at least a half.
    """
    num_tokens: int
    """Tokens of the text; of more than `classifier.max_tokens` only the beginning and the end were read."""


NOTHING = Classification("", math.nan, {}, (), 0)
"""The answer to a text without words."""


class Classifier:
    """A trained encoder with its classes and tokenizer."""

    def __init__(
        self,
        model: EncoderClassifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        config: RunConfig,
        temperature: float = 1.0,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.config = config
        self.temperature = temperature
        """Divides the logits; found on the validation part (Guo et al. 2017)."""
        self.is_multi_label = config.classifier.objective == "multi_label"
        """Whether a text gets any number of labels."""

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """The classifier of a run directory, in float32.

        Raises `UsageError` for a model of another kind, and `MissingInputError` or `DataError` naming the file that is
        missing or damaged.
        """
        run = RunDirectory.open(Path(path))
        settings = run.read_config()
        config = run_config(settings, str(run.config))
        if (task := settings.get("task", "translator")) != "classifier":
            raise UsageError(f'{path}: holds a "{task}", not a classifier')
        labels = run.labels()
        model = build_checked(
            run, config.model, partial(build_classifier, config.model, config.classifier, len(labels), 0)
        )
        load_weights(model, run)
        tokenizer = Tokenizer.load(run.tokenizer, config.model.vocab_size)
        return cls(model, tokenizer, labels, config, kept_temperature(run, config))

    def classify(self, texts: Iterable[str]) -> list[Classification]:
        """Classify all of `texts`; one without words is answered by `NOTHING`."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = 1024
    ) -> Iterator[Classification]:
        """Classify an endless stream in order, in constant memory.

        At most `window` lines are read ahead; a window of 1 answers each line before it reads the next. Batch size and
        neighbours do not change a probability by more than rounding.
        """
        remaining = iter(lines)
        while texts := list(islice(remaining, window)):
            encoded = self.encode(texts)
            found = [NOTHING] * len(texts)
            read = [read_ids(ids, self.config.classifier) if ids else [] for ids in encoded]
            for places in length_batches([len(ids) for ids in read], batch_size, BATCH_TOKENS):
                for place, row in zip(places, self.probabilities([read[place] for place in places]), strict=True):
                    found[place] = self._classification(row, len(encoded[place]))
            yield from found

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """All ids of each text; none for a text without words."""
        return self.tokenizer.encode_batch([text.strip() for text in texts], self.config.data.source_language)

    @torch.inference_mode()
    def probabilities(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """(B, C) of what the model reads of B texts (`read_ids`)."""
        tokens, mask = pad_texts(rows, self.model.output.weight.device)
        logits = self.model(tokens, mask).float().cpu().numpy()
        return (label_probabilities if self.is_multi_label else probabilities)(logits, self.temperature)

    def _classification(self, row: NDArray[np.float64], num_tokens: int) -> Classification:
        best = int(row.argmax())
        by_label = dict(zip(self.labels, row.tolist(), strict=True))
        order = np.argsort(-row, kind="stable")
        chosen = [index for index in order if row[index] >= LEAST_PROBABILITY] if self.is_multi_label else [best]
        labels = tuple(self.labels[index] for index in chosen)
        return Classification(self.labels[best], float(row[best]), by_label, labels, num_tokens)
