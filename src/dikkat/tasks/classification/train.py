"""The job of training a classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.text_files import read_lines
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification.card import classifier_card
from dikkat.tasks.classification.data import ClassifyRequest
from dikkat.tasks.classification.prepare import prepare
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_to_train
from dikkat.training.classification import ClassificationTask
from dikkat.training.multi_label import MultiLabelTask
from dikkat_runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class ClassifierJob:
    """A classifier from labelled texts; see `Job`."""

    request: ClassifyRequest

    @property
    def data(self) -> tuple[str, ...]:
        return tuple(self.request.data)

    @property
    def has_settings(self) -> bool:
        return bool(self.request.settings or self.request.preset or self.request.init)

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        return prepare(self.request, run)

    def task(self, run: RunDirectory, config: RunConfig) -> ClassificationTask:
        labels = run.labels()
        build = partial(build_classifier, config.model, config.classifier, len(labels), config.training.seed)
        model = build_to_train(run, config.model, build)
        if run.initial.exists():
            initial = read_tensors(run.initial)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(initial[name])
        open_part = partial(
            Corpus.open,
            run.corpus,
            vocab_size=config.model.vocab_size,
            num_classes=len(labels),
            any_number_of_classes=config.classifier.objective == "multi_label",
        )
        train, validation = (open_part(part) for part in ("train", "validation"))
        texts = list(read_lines(run.held_out("validation", "source")))
        task = MultiLabelTask if config.classifier.objective == "multi_label" else ClassificationTask
        return task(model, train, validation, texts, labels, config)

    def facts(self, task: ClassificationTask, config: RunConfig) -> dict[str, str]:
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        most, model = config.classifier.max_tokens, config.model
        # <bos> stands before what is read
        full = int((task.corpus.source_lengths > most).sum())
        beginning = round(most * config.classifier.beginning)
        return {
            "texts": f"{len(task.corpus):,} to train on, {full:,} of them of {most} tokens or more, of which the"
            f" first {beginning} and the last {most - beginning} are read",
            "classes": _told(task.labels),
            "model": f"{model.encoder_layers} layers, width {model.model_dim}, {parameters:,} parameters,"
            f" vocabulary {model.vocab_size:,}, {config.classifier.pooling} pooling",
            "batches": f"{task.batches_per_epoch:,} a pass",
        }

    def shortcomings(self, task: ClassificationTask) -> tuple[str, ...]:
        if not (absent := task.absent_classes):
            return ()
        named = _told(absent).partition(": ")[2]
        return (f"no text of {named} was validated on, so its score says nothing of it; give texts of it with --valid",)

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        return classifier_card(run, rows, best_row(rows, run_config(run.read_config(), str(run.config))))


def best_row(rows: list[dict[str, Any]], config: RunConfig) -> dict[str, Any]:
    """The validation whose weights were kept."""
    return max(rows, key=lambda row: float(row[score_of(config)]))


def score_of(config: RunConfig) -> str:
    """The column of metrics.jsonl by which weights are kept."""
    if config.classifier.objective == "multi_label":
        return "micro_f1"
    return "macro_f1" if config.classifier.balance else "accuracy"


def kept_temperature(run: RunDirectory, config: RunConfig) -> float:
    """The temperature that was found for the weights that were kept. Raises `DataError` where it is not recorded."""
    rows = run.read_metrics()
    if not rows:
        raise DataError(f"{run.metrics}: holds no validation, so the probabilities cannot be calibrated")
    step = run.weights_metadata().get("step")
    # weights of an older dikkat do not say of which validation they are
    kept = [row for row in rows if step in (None, str(row["step"]))]
    if not kept:
        raise DataError(f"{run.metrics}: has no row of update {step}, whose weights were kept; go on with --resume")
    try:
        temperature = float(best_row(kept, config)["temperature"])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{run.metrics}: damaged: a row has no score or no temperature; restore the file") from None
    if not 0.0 < temperature < math.inf:
        raise DataError(f"{run.metrics}: damaged: the temperature is {temperature}; restore the file")
    return temperature


def _told(labels: tuple[str, ...], most: int = 10) -> str:
    rest = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}{rest}"
