"""Write a page that follows a training run: translations and attention of three held-out sentences."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.explain.attention_map import mean_of_heads
from dikkat.explain.report.html import check_page
from dikkat.explain.report.run_page import Followed, Look, watch_page
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.train import Outcome, TrainWatcher, train
from dikkat.tasks.in_memory import translator_of
from dikkat.tasks.translation.attention import Attending
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat.training.task import StepReport, Stop, Validation, never
from dikkat.training.validation import Validator
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import CannotCreateError, DiskError, msg
from dikkat_runtime.files import probe_next_to, write_atomically, write_errors
from dikkat_runtime.text.text_files import read_lines

WORDS = (6, 10, 14)
"""Lengths in words of the three sentences: long enough to have an order, short enough to be read at a glance."""
MAX_SHOWN = 12
"""Validations shown side by side; more are thinned out evenly, the first and the last are kept."""


def train_watched(job: TranslatorJob, out: Path, watcher: TrainWatcher, *, page: Path, **how: Any) -> Outcome:
    """Train like `train`, with a `page` that follows the run.

    `how` are the options of `train`. Raises the errors of `train` and `TrainingPage`.
    """
    training_page = TrainingPage(page, RunDirectory(out), watcher)
    finished = False
    try:
        outcome = train(replace(job, new_validator=partial(WatchedValidator, training_page)), out, training_page, **how)
        finished = outcome.finished
    finally:
        training_page.close(finished=finished)
    return outcome


class TrainingPage(TrainWatcher):
    """Write the page at `path` after each validation of `run`, and forward every report to `inner`.

    The page reads the model between two updates and leaves weights, mode and random state as they are. Once training
    runs, a page that cannot be written is reported and does not stop it. Raises `UsageError` for a suffix other than
    .html, `CannotCreateError` or `DiskError` when `path` cannot be written.
    """

    def __init__(self, path: Path, run: RunDirectory, inner: TrainWatcher) -> None:
        check_page(path)
        with write_errors(path):
            probe_next_to(path)
        self._path = path
        self._run = run
        self._inner = inner
        self._sentences: list[tuple[str, str]] = []
        self._seen: list[Look] = []
        """By the validation that is going on."""
        self._pages: list[tuple[dict[str, Any], list[Look]]] = []
        self._is_training = False

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None:
        """Choose the sentences, and forward the report of the preparation."""
        self._is_training = True
        self._inner.prepared(config, report, facts)

    def note(self, text: str) -> None:
        """Forward a note."""
        self._inner.note(text)

    def step(self, report: StepReport) -> None:
        """Forward the report of an update."""
        self._inner.step(report)

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Write the page, and forward the result of the validation."""
        self._inner.validation(row, validation_result, is_best)
        self.record(row)

    def look(self, model: EncoderDecoder) -> None:
        """Translate the sentences with the weights that are being validated, and record their attention."""
        config = run_config(self._run.read_config(), str(self._run.config))
        vocabularies = Vocabularies.load(self._run, config.model, config.data.vocabularies)
        translator = translator_of(model, vocabularies.source, config, target_tokenizer=vocabularies.target)
        self._sentences = self._sentences or self._choose()
        attending = Attending(translator)
        wanted = attending.choose("decoder", "cross", len(model.decoder.blocks) - 1)
        translations = translator.stream([source for source, _ in self._sentences], DecodingOptions())
        self._seen = [
            Look(translation.text, mean_of_heads(attending.forced(source, reference, wanted).maps))
            for translation, (source, reference) in zip(translations, self._sentences, strict=True)
        ]

    def record(self, row: dict[str, float]) -> None:
        """Write the page with the last recorded attention, under its `row` of metrics."""
        self._pages.append((row, self._seen))
        self._write(msg("training, update {step:,}; this page reloads itself", row["step"]), running=True)

    def close(self, *, finished: bool) -> None:
        """Write the page for the last time; a run that never began has none."""
        if self._is_training:
            self._write("finished" if finished else "stopped", running=False)

    def _choose(self) -> list[tuple[str, str]]:
        texts_by_side = (read_lines(self._run.held_out("validation", side)) for side in ("source", "target"))
        pairs = list(zip(*texts_by_side, strict=True))
        chosen: list[tuple[str, str]] = []
        for words in WORDS[: len(pairs)]:
            rest = (pair for pair in pairs if pair not in chosen)
            chosen += sorted(rest, key=lambda pair: abs(len(pair[0].split()) - words))[:1]
        return chosen

    def _write(self, status: str, *, running: bool) -> None:
        last = len(self._pages) - 1
        shown = [self._pages[index] for index in np.unique(np.linspace(0, last, MAX_SHOWN).astype(int)) if last >= 0]
        followed = [
            Followed(source, reference, tuple((row, looks[number]) for row, looks in shown))
            for number, (source, reference) in enumerate(self._sentences)
        ]
        name = self._run.path.resolve().name
        content = watch_page(name, status, self._run.read_metrics(), followed, running=running)
        try:
            write_atomically(self._path, content.encode("utf-8", "replace"))
        except (CannotCreateError, DiskError) as error:
            self.note(msg("{error}; training goes on without its page", error))


class WatchedValidator(Validator):
    """Validate like `Validator`, and show the model to the training page afterwards."""

    def __init__(self, training_page: TrainingPage, *data: Any) -> None:
        super().__init__(*data)
        self._training_page = training_page

    def __call__(self, model: EncoderDecoder, number: int, should_stop: Stop = never) -> Validation:
        validation = super().__call__(model, number, should_stop)
        if math.isfinite(validation.loss):
            self._training_page.look(model)
        return validation
