"""The classifier with its model: texts in, labels with their probabilities out, and what it attends to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from dikkat.config import RunConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.engines import choose_engine
from dikkat.tasks.common.settings import settings_of
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.common.with_model import WithModel
from dikkat.torch_engine.in_memory import classifier_in_memory
from dikkat.torch_engine.texts import TorchClassifier
from dikkat_runtime.engine.contract import ClassifyingEngine, EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks import classifier
from dikkat_runtime.tasks.classifier import UNDECIDED, Classification, Decision, decision_of, open_word_table
from dikkat_runtime.tasks.opening import open_classifier_engine
from dikkat_runtime.tasks.word_table import WordTable
from dikkat_runtime.text.tokenizer import Tokenizer

__all__ = ["Classification", "Classifier"]


class Classifier(WithModel[EncoderClassifier], classifier.Classifier):
    """A trained encoder with its classes and tokenizer; an engine computes, the model shows what it attends to."""

    def __init__(
        self,
        model: EncoderClassifier | Callable[[], EncoderClassifier],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        config: RunConfig,
        decision: Decision = UNDECIDED,
        *,
        engine: ClassifyingEngine | None = None,
        table: WordTable | None = None,
    ) -> None:
        """Without an `engine` it is the native one with the weights that the model has now, where that is possible."""
        self._model, self.config = model, config
        if engine is None:
            engine = classifier_in_memory(self.model, config.model, config.classifier)
        settings, language = config.classifier.model_dump(), config.data.source_language
        super().__init__(engine, tokenizer, labels, settings, decision, language=language, table=table)

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
    ) -> Classifier:
        """The classifier of a run directory.

        Raises `UsageError` for a model of another kind and an engine that cannot run, and `MissingInputError` or
        `DataError` naming the file that is missing or damaged.
        """
        where = find_device(device)
        run, settings, config = settings_of(path, "classifier")
        choice = choose_engine(run, settings, engine, precision, device)
        labels = run.labels()
        model: EncoderClassifier | Callable[[], EncoderClassifier] = partial(_model_of, run, config, where)
        if choice.is_native:
            computing: ClassifyingEngine = open_classifier_engine(run.path, settings, precision)
        else:
            model = _model_of(run, config, where)
            computing = TorchClassifier(model, why_not_native=choice.shown_reason, where=str(run.weights))
        tokenizer = Tokenizer.load(run.tokenizer, config.model.vocab_size)
        decision = decision_of(run.path, settings.get("classifier", {}), len(labels))
        table = open_word_table(run.path, settings.get("classifier", {}), len(labels), config.data.source_language)
        return cls(model, tokenizer, labels, config, decision, engine=computing, table=table)


def _model_of(run: RunDirectory, config: RunConfig, where: torch.device) -> EncoderClassifier:
    num_classes = len(run.labels())
    model = build_checked(run, config.model, partial(build_classifier, config.model, config.classifier, num_classes, 0))
    load_weights(model, run)
    return model.to(where).eval()
