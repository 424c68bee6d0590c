"""The job of training a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus, length_counts
from dikkat.data.text_files import read_lines
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification.card import classifier_card
from dikkat.tasks.classification.data import ClassifyRequest
from dikkat.tasks.classification.evaluate import held_out_texts, scores_of
from dikkat.tasks.classification.log_count_ratios import fill_ngram_table
from dikkat.tasks.classification.obvious_baseline import compared
from dikkat.tasks.classification.opening import open_classifier
from dikkat.tasks.classification.prepare import prepare
from dikkat.tasks.common.precision_trial import PrecisionTrial
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_to_train
from dikkat.training.classification import ClassificationTask, TableScores
from dikkat.training.multi_label import MultiLabelTask, begin_with_shares
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.run.parts import WORD_SCORES
from dikkat_runtime.tasks.classifier import Classification, Classifier, score_column


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
        # a checkpoint holds the table, and training does not begin where there are checkpoints of which none is sound
        if not run.checkpoint_folders():
            fill_ngram_table(model, train, len(labels), is_multi_label=config.classifier.objective == "multi_label")
            if config.classifier.objective == "multi_label" and not config.classifier.word_table:
                begin_with_shares(model, train, len(labels))
        texts = list(read_lines(run.held_out("validation", "source")))
        task = MultiLabelTask if config.classifier.objective == "multi_label" else ClassificationTask
        table = _table_scores(run) if config.classifier.word_table else None
        return task(model, train, validation, texts, labels, config, table)

    def facts(self, task: ClassificationTask, config: RunConfig) -> dict[str, str]:
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        most, model = config.classifier.max_tokens, config.model
        # <bos> stands before what is read
        full = int(length_counts(task.corpus.lengths("source"))[most + 1 :].sum())
        beginning = round(most * config.classifier.beginning)
        return {
            "texts": f"{len(task.corpus):,} to train on, {full:,} of them of {most} tokens or more, of which the"
            f" first {beginning} and the last {most - beginning} are read",
            "classes": _listed(task.labels),
            "model": f"{model.encoder_layers} layers, width {model.model_dim}, {parameters:,} parameters,"
            f" vocabulary {model.vocab_size:,}, {config.classifier.pooling} pooling",
            "batches": f"{task.batches_per_epoch:,} a pass",
        }

    def shortcomings(self, task: ClassificationTask) -> tuple[str, ...]:
        if not (absent := task.absent_classes):
            return ()
        named = _listed(absent).partition(": ")[2]
        return (f"no text of {named} was validated on, so its score says nothing of it; give texts of it with --valid",)

    def precision_trial(self, run: RunDirectory, config: RunConfig) -> PrecisionTrial:
        texts, column = held_out_texts(run, "validation"), score_column(config.classifier.model_dump())

        @cache
        def classifier(precision: Precision) -> Classifier:
            return open_classifier(run.path, "native", precision)

        def answers(precision: Precision, numbers: Sequence[int]) -> list[Classification]:
            return classifier(precision).classify(texts[number].text for number in numbers)

        def score(answers: list[Classification], numbers: Sequence[int]) -> float:
            model = classifier("float32")
            scores = scores_of(model.labels, model.is_multi_label, [texts[number] for number in numbers], answers)
            return 100 * float(getattr(scores, column))

        return PrecisionTrial(column, len(texts), answers, score)

    def remarks(self, run: RunDirectory, rows: list[dict[str, Any]]) -> list[str]:
        settings = run.read_config()
        best = best_row(rows, run_config(settings, str(run.config)))
        remarks = []
        if best.get("encoder_weight") == 0.0:
            remarks.append("the encoder adds nothing of use to the word table, which answers alone")
        if baseline := settings["data_source"].get("baseline"):
            remarks.append(compared(float(best[baseline["measure"]]), float(baseline["score"])))
        return remarks

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        return classifier_card(run, rows, best_row(rows, run_config(run.read_config(), str(run.config))))


def _table_scores(run: RunDirectory) -> TableScores:
    scores = read_tensors(run.path / WORD_SCORES)
    return TableScores(scores["train"].numpy(), scores["validation"].numpy())


def best_row(rows: list[dict[str, Any]], config: RunConfig) -> dict[str, Any]:
    """The validation whose weights were kept."""
    column = score_column(config.classifier.model_dump())
    return max(rows, key=lambda row: (float(row[column]), -float(row["valid_loss"])))


def _listed(labels: tuple[str, ...], most: int = 10) -> str:
    rest = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}{rest}"
