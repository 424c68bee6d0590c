"""The job of training a translator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.text_files import read_lines
from dikkat.models.factory import build_model
from dikkat.pipelines.card import card
from dikkat.pipelines.preparation import TrainRequest, prepare
from dikkat.run_directory import RunDirectory
from dikkat.text.tokenizer import Tokenizer
from dikkat.training.translation import TranslationTask
from dikkat.training.validation import Validator


@dataclass(frozen=True, slots=True)
class TranslatorJob:
    """A translator from parallel text; see `Job`."""

    request: TrainRequest
    new_validator: Callable[[Corpus, Tokenizer, list[str], list[str]], Validator] = Validator
    """Makes the validator; another one may watch the model as well."""

    @property
    def data(self) -> tuple[str, ...]:
        return tuple(self.request.data)

    @property
    def has_settings(self) -> bool:
        return bool(self.request.settings or self.request.preset)

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        return prepare(self.request, run)

    def task(self, run: RunDirectory, config: RunConfig) -> TranslationTask:
        sources, targets = (list(read_lines(run.held_out("validation", side))) for side in ("source", "target"))
        tokenizer = Tokenizer.load(run.tokenizer)
        train, validation = (
            Corpus.open(run.corpus, part, vocab_size=config.model.vocab_size) for part in ("train", "validation")
        )
        validator = self.new_validator(validation, tokenizer, sources, targets)
        model = build_model(config.model, config.training.seed)
        return TranslationTask(model, train, validator, config.training)

    def facts(self, task: TranslationTask, config: RunConfig) -> dict[str, str]:
        padding = task.plan.padding_share(task.plan.epoch(0))
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        model, share = config.model, config.training.bidirectional_share
        directions = {"directions": f"both in turn in the first {share:.0%} of the run, then one"} if share else {}
        return {
            "pairs": f"{len(task.corpus):,} to train on",
            "model": f"{model.encoder_layers}+{model.decoder_layers} layers, width {model.model_dim},"
            f" {parameters:,} parameters, vocabulary {model.vocab_size:,}",
            "batches": f"{task.batches_per_epoch:,} a pass, padding {padding[0]:.1%} of the source,"
            f" {padding[1]:.1%} of the target",
            **directions,
        }

    def card(self, run: RunDirectory, rows: list[dict[str, Any]], command: str) -> str:
        return card(run.read_config(), rows, command, run.foreign_metrics())
