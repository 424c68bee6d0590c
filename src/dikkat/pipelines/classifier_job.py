"""The job of training a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.text_files import read_lines
from dikkat.models.factory import build_classifier
from dikkat.pipelines.classifier_preparation import ClassifyRequest, prepare
from dikkat.pipelines.initial_weights import INITIAL
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.metrics import settings_hash
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.classification import ClassificationTask


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
        labels = run.read_config()["labels"]
        model = build_classifier(config.model, config.classifier, len(labels), config.training.seed)
        if (run.path / INITIAL).exists():
            initial = read_tensors(run.path / INITIAL)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(initial[name])
        sizes = {"vocab_size": config.model.vocab_size, "num_classes": len(labels)}
        train, validation = (Corpus.open(run.corpus, part, **sizes) for part in ("train", "validation"))
        texts = list(read_lines(run.held_out("validation", "source")))
        return ClassificationTask(model, train, validation, texts, labels, config)

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

    def card(self, run: RunDirectory, rows: list[dict[str, Any]], command: str) -> str:
        return _card(run, rows, command)


def best_row(rows: list[dict[str, Any]], config: RunConfig) -> dict[str, Any]:
    """The validation whose weights were kept."""
    score = "macro_f1" if config.classifier.balance else "accuracy"
    return max(rows, key=lambda row: float(row[score]))


def _told(labels: tuple[str, ...], most: int = 10) -> str:
    rest = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}{rest}"


def _card(run: RunDirectory, rows: list[dict[str, Any]], command: str) -> str:
    settings = run.read_config()
    best = best_row(rows, RunConfig(classifier=settings["classifier"]))
    source = settings["data_source"]
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in source["left_out"].items()) or "none"
    classes = ", ".join(f"{label} ({count:,})" for label, count in source["classes"].items())
    lines = [
        f"# Classifier: {', '.join(settings['labels'])}",
        "",
        f"- data: {' '.join(source['data'])}, {source['train_texts']:,} training texts; left out: {left_out}",
        f"- classes: {classes}",
        f"- fingerprint of the training texts: sha256 {source['sha256']}",
        f"- preset: {source['preset']}" + (f", begun with {source['init']}" if source["init"] else ""),
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {rows[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation on {source['validation_texts']:,} texts the model never saw:",
        "",
        f"- accuracy {best['accuracy']:.2f} %",
        f"- macro F1 {best['macro_f1']:.2f} %",
        f"- loss {best['valid_loss']:.3f} nats a text, at temperature 1; calibrated at {best['temperature']:.3f}",
    ]
    if foreign := run.foreign_metrics():
        numbers = ", ".join(map(str, foreign))
        lines += ["", f"Validations measured under other settings than those in config.json: {numbers}."]
    if command:
        lines += ["", "To make it again:", "", f"    {command}"]
    return "\n".join(lines) + "\n"
