"""The job of training a translator."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dikkat.config import ModelConfig, RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.evaluation.scores import PLAIN, Scoring, score_translations
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.common.card import foreign_validations, left_out
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.speed_trial import PrecisionTrial
from dikkat.tasks.common.weights import build_to_train, load_initial
from dikkat.tasks.translation.adapt import adaptation_lines, general_floor, nothing_kept, settle, why_stopped
from dikkat.tasks.translation.evaluate import scored_as_trained
from dikkat.tasks.translation.general_text import held_out_lines
from dikkat.tasks.translation.guiding import guided_fact, guided_head, guided_note
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat.torch_engine.texts import engine_in_memory
from dikkat.training.translation import TranslationTask, Validator
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.errors import msg
from dikkat_runtime.run.metrics import settings_hash
from dikkat_runtime.tasks import confidence
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.text_files import read_lines

# Write the model card of a translator: origin, data, scores and the command that makes it again.


def card(
    settings: dict[str, Any],
    metrics: list[dict[str, Any]],
    foreign: Sequence[int] = (),
    scoring: Scoring = PLAIN,
    adaptation: Sequence[str] = (),
) -> str:
    """Return the card in Markdown, from config.json and the rows of metrics.jsonl.

    All rows were scored by `scoring`; the rows numbered in `foreign` were measured under other settings.
    """
    best = max(metrics, key=lambda row: row.get("kept_score", row["chrf"]))
    data, source = settings["data"], settings["data_source"]
    languages = f"{data['source_language'] or '?'} → {data['target_language'] or '?'}"
    lines = [
        f"# Translator {languages}",
        "",
        f"- data: {' '.join(source['data'])}, {source['train_pairs']:,} training pairs; left out: {left_out(source)}",
        f"- fingerprint of the training pairs: sha256 {source['sha256']}",
        f"- preset: {source['preset']}",
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {best['tokens']:,} target tokens,"
        f" {metrics[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation, greedy, on text {_seen(source)}:",
        "",
        f"- BLEU {best['bleu']:.2f} ({_signature(scoring.bleu())})",
        f"- chrF {best['chrf']:.2f} ({_signature(scoring.chrf())})",
        f"- loss {best['valid_loss']:.3f} nats a token",
        *foreign_validations(foreign),
    ]
    return "\n".join([*lines, *adaptation]) + "\n"


def _seen(source: dict[str, Any]) -> str:
    seen, pairs = source.get("validation_seen", 0), source.get("validation_pairs", 0)
    return f"of which {seen:,} of {pairs:,} pairs were trained on too" if seen else "the model never saw"


def _signature(scorer: BLEU | CHRF) -> str:
    scorer.corpus_score(["a"], [["a"]])
    return str(scorer.get_signature())


MEASURED_BATCHES = 2_000
"""Batches of which the padding is measured: they come in random order, so the first stand for all."""
FITTED_PAIRS = 200
"""Validation pairs from which on confidence is fitted at the end of training, not at its first use."""


@dataclass(frozen=True, slots=True)
class TranslatorJob:
    """Train a translator from parallel text; see `Job`."""

    request: TrainRequest

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        """Write everything that training reads into `run`; see `prepare`."""
        return prepare(self.request, run)

    def task(self, run: RunDirectory, config: RunConfig) -> TranslationTask:
        """Return the training task with a new model."""
        sources, targets = (list(read_lines(run.held_out("validation", side))) for side in ("source", "target"))
        targets, scoring = scored_as_trained(targets, config)
        vocabularies = Vocabularies.load(run, config)
        train, validation = (open_corpus(run, part, vocabularies) for part in ("train", "validation"))
        validator = Validator(validation, vocabularies.target, sources, targets, scoring)
        validator.open_engine = partial(engine_in_memory, config=config.model)
        if run.held_out("general", "source").exists():
            lines = held_out_lines(run, "general")
            general = lines[0], scored_as_trained(lines[1], config)[0]
            kept = Validator(open_corpus(run, "general", vocabularies), vocabularies.target, *general, scoring)
            kept.open_engine = validator.open_engine
            before = data_source(run.read_config(), run.config)["adapted"]["chrf_before"]
            validator.general = kept, general_floor(before) or 0.0
        model = build_to_train(run, config.model, partial(build_model, config.model, config.training.seed))
        if run.initial.exists():
            load_initial(model, run)
        return TranslationTask(model, train, validator, config.training, guided_head(model, train, run, config))

    def facts(self, task: TranslationTask, config: RunConfig) -> dict[str, str]:
        """Return facts about the data and the model to print before the first update."""
        padding = task.plan.padding_share(islice(task.plan.epoch(0), MEASURED_BATCHES))
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        model, share = config.model, config.training.bidirectional_share
        directions = (
            {"directions": msg("both in turn in the first {share:.0%} of the run, then one", share)} if share else {}
        )
        return {
            "pairs": msg("{count:,} to train on", len(task.corpus)),
            "model": msg(
                "{encoder_layers}+{decoder_layers} layers, width {model_dim}, {parameters:,} parameters, {vocabulary}"
            ).fill(model.encoder_layers, model.decoder_layers, model.model_dim, parameters, _vocabulary(model)),
            "batches": msg(
                "{batches_per_epoch:,} a pass, padding {source_padding:.1%} of the source, {target_padding:.1%} "
                "of the target"
            ).fill(task.batches_per_epoch, padding[0], padding[1]),
            **directions,
            **guided_fact(task.guided, config),
        }

    def shortcomings(self, task: TranslationTask) -> tuple[str, ...]:
        """Return what is wrong with the data, each as a clause of a sentence."""
        return ()

    def precision_trial(self, run: RunDirectory, config: RunConfig) -> PrecisionTrial:
        sources, targets = (list(read_lines(run.held_out("validation", side))) for side in ("source", "target"))
        targets, scoring = scored_as_trained(targets, config)

        @cache
        def translator(precision: Precision) -> Translator:
            return Translator.load(run.path, precision, engine="native")

        def answers(precision: Precision, numbers: Sequence[int]) -> list[str]:
            texts = (sources[number] for number in numbers)
            return [
                translation.text for translation in translator(precision).stream(texts, DecodingOptions(scores=False))
            ]

        def score(answers: list[str], numbers: Sequence[int]) -> float:
            return score_translations(answers, [targets[number] for number in numbers], scoring).chrf

        return PrecisionTrial("chrf", len(sources), answers, score)

    def remarks(self, run: RunDirectory, rows: list[dict[str, Any]]) -> list[str]:
        """Return why an adaptation stopped, and the score of all members together, where there are several.

        Confidence is fitted, unless there are too few validation pairs to take long at its first use.
        """
        config = run_config(run.read_config(), str(run.config))
        reasons = [why_stopped(rows, config), *nothing_kept(run)] if run.initial.exists() else []
        sources, targets = (list(read_lines(run.held_out("validation", side))) for side in ("source", "target"))
        if len(sources) >= FITTED_PAIRS and why_not_native(run.read_config(), str(run.config)) is None:
            (run.path / confidence.FILE).unlink(missing_ok=True)
            calibration = Translator.load(run.path).judge(run.path).calibration
            reasons.append(msg("confidence was fitted on {count:,} validation pairs", calibration.pairs))
        if config.training.members == 1:
            return reasons
        targets, scoring = scored_as_trained(targets, config)
        answers = Translator.load(run.path).stream(sources, DecodingOptions(scores=False))
        scores = score_translations([answer.text for answer in answers], targets, scoring)
        return [
            *reasons,
            msg("the mean of {count} models, greedy: validation chrF {chrf:.2f}, BLEU {bleu:.2f}").fill(
                config.training.members, scores.chrf, scores.bleu
            ),
        ]

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        """Return the model card of the finished run as Markdown."""
        settings = run.read_config()
        config = run_config(settings, str(run.config))
        _, scoring = scored_as_trained(list(read_lines(run.held_out("validation", "target"))), config)
        adapted = data_source(settings, run.config).get("adapted")
        notes = [f"\n{note[0].upper()}{note[1:]}."] if (note := guided_note(config)) else []
        if adapted:
            notes += adaptation_lines(run, settle(run, config, adapted))
        return card(settings, rows, run.foreign_metrics(), scoring, notes)


def _vocabulary(model: ModelConfig) -> str:
    if model.target_vocab_size is None:
        return msg("vocabulary {vocab_size:,}", model.vocab_size)
    return msg("vocabularies {vocab_size:,} and {target_vocab_size:,}", model.vocab_size, model.target_vocab_size)
