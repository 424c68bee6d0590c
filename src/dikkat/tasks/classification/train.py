"""The job of training a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from dikkat.config import RunConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus, length_counts
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification.evaluate import held_out_texts, scores_of
from dikkat.tasks.classification.obvious_baseline import compared
from dikkat.tasks.classification.prepare import prepare
from dikkat.tasks.common.card import foreign_validations, left_out
from dikkat.tasks.common.settings import Request, run_config
from dikkat.tasks.common.speed_trial import PrecisionTrial
from dikkat.tasks.common.weights import build_to_train
from dikkat.training.classification import ClassificationTask, MultiLabelTask, TableScores, begin_with_shares
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.errors import msg
from dikkat_runtime.run.metrics import settings_hash
from dikkat_runtime.run.parts import WORD_SCORES
from dikkat_runtime.tasks.classifier import Classification, Classifier, score_column
from dikkat_runtime.text.text_files import read_lines

_BELOW = ("embedding.", "positions.", "embedding_norm.")


def classifier_card(run: RunDirectory, rows: list[dict[str, Any]], best: dict[str, Any]) -> str:
    """Return the card: what the finished run learned from, how, and how well.

    `best` is the row of the validation whose weights were kept.
    """
    settings = run.read_config()
    source = data_source(settings, run.config)
    classes = ", ".join(f"{label} ({count:,})" for label, count in source["classes"].items())
    seen = source["validation_seen"]
    known = f", {seen:,} of which stand in the training data too" if seen else " the model never saw"
    lines = [
        f"# Classifier: {', '.join(settings['labels'])}",
        "",
        f"- data: {' '.join(source['data'])}, {source['train_texts']:,} training texts; left out: {left_out(source)}",
        f"- classes: {classes}",
        f"- fingerprint of the training texts: sha256 {source['sha256']}",
        f"- preset: {source['preset']}" + (f", begun with {source['init']}" if source["init"] else ""),
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {rows[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation on {source['validation_texts']:,} texts{known}:",
        "",
        *_scores(best, source),
        f"- loss {best['valid_loss']:.3f} nats a text, at temperature 1; calibrated at {best['temperature']:.3f}",
        *foreign_validations(run.foreign_metrics()),
    ]
    return "\n".join(lines) + "\n"


def _scores(best: dict[str, Any], source: dict[str, Any]) -> list[str]:
    names = ("accuracy", "micro_f1", "macro_f1", "subset_accuracy")
    missing = [label for label, count in source.get("validation_classes", {}).items() if not count]
    over = f" (no text of {', '.join(missing)})" if missing else ""
    return [
        f"- {key.replace('_', ' ').replace('f1', 'F1')} {best[key]:.2f} %{over if key == 'macro_f1' else ''}"
        for key in names
        if key in best
    ]


@dataclass(frozen=True, slots=True)
class ClassifierJob:
    """A classifier from labelled texts; see `Job`."""

    request: Request

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        return prepare(self.request, run)

    def task(self, run: RunDirectory, config: RunConfig) -> ClassificationTask:
        labels, is_multi_label = run.labels(), config.classifier.objective == "multi_label"
        build = partial(build_classifier, config.model, config.classifier, len(labels), config.training.seed)
        model = build_to_train(run, config.model, build)
        if run.initial.exists():
            initial, layers = read_tensors(run.initial), config.classifier.still_layers
            still = (*(_BELOW if layers else ()), *(f"encoder.blocks.{layer}." for layer in range(layers)))
            for name, parameter in model.named_parameters():
                parameter.detach().copy_(initial[name])
                parameter.requires_grad_(not name.startswith(still))
        open_part = partial(
            Corpus.open,
            run.corpus,
            vocab_size=config.model.vocab_size,
            num_classes=len(labels),
            any_number_of_classes=is_multi_label,
        )
        train, validation = (open_part(part) for part in ("train", "validation"))
        # a checkpoint holds the table, and training does not begin where there are checkpoints of which none is sound
        if not run.checkpoint_folders() and is_multi_label and not config.classifier.word_table:
            begin_with_shares(model, train, len(labels))
        texts = list(read_lines(run.held_out("validation", "source")))
        task = MultiLabelTask if is_multi_label else ClassificationTask
        table = None
        if config.classifier.word_table:
            table = TableScores(**{name: part.numpy() for name, part in read_tensors(run.path / WORD_SCORES).items()})
        return task(model, train, validation, texts, labels, config, table)

    def facts(self, task: ClassificationTask, config: RunConfig) -> dict[str, str]:
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        most, model = config.classifier.max_tokens, config.model
        counts = length_counts(task.corpus.lengths("source"))
        # what was cut has all places, of which one more is for <bos> where nothing was imported
        full = int(counts[max(most, len(counts) - 1) :].sum())
        beginning, seen = round(most * config.classifier.beginning), config.classifier.seen_tokens
        economy = msg("{batches_per_epoch:,} a pass, of {seen} tokens a text; the first {still} layers stay").fill(
            task.batches_per_epoch, seen, config.classifier.still_layers
        )
        return {
            "texts": msg(
                "{count:,} to train on, {cut:,} of them of {limit} tokens or more, of which the first {first} "
                "and the last {last} are read"
            ).fill(len(task.corpus), full, most, beginning, most - beginning),
            "classes": _listed(task.labels),
            "model": msg(
                "{encoder_layers} layers, width {model_dim}, {parameters:,} parameters, vocabulary {vocab_size:,}, "
                "{pooling} pooling"
            ).fill(model.encoder_layers, model.model_dim, parameters, model.vocab_size, config.classifier.pooling),
            "batches": msg("{batches_per_epoch:,} a pass", task.batches_per_epoch) if seen is None else economy,
        }

    def shortcomings(self, task: ClassificationTask) -> tuple[str, ...]:
        if not (absent := task.absent_classes):
            return ()
        return (
            msg(
                "no validation text has the label {labels}, so no score tells of it; give such texts with --valid"
            ).fill(_listed(absent).partition(": ")[2]),
        )

    def precision_trial(self, run: RunDirectory, config: RunConfig) -> PrecisionTrial:
        texts, column = held_out_texts(run, "validation"), score_column(config.classifier.model_dump())

        @cache
        def classifier(precision: Precision) -> Classifier:
            return Classifier.load(run.path, precision, engine="native")

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
        remarks: list[str] = []
        if best.get("encoder_weight") == 0.0:
            remarks.append(msg("the encoder adds nothing of use to the word table, which answers alone"))
        if baseline := settings["data_source"].get("baseline"):
            remarks.append(compared(float(best[baseline["measure"]]), float(baseline["score"])))
        return remarks

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        return classifier_card(run, rows, best_row(rows, run_config(run.read_config(), str(run.config))))


def best_row(rows: list[dict[str, Any]], config: RunConfig) -> dict[str, Any]:
    """The validation whose weights were kept."""
    column = score_column(config.classifier.model_dump())
    return max(rows, key=lambda row: (float(row[column]), -float(row["valid_loss"])))


def _listed(labels: tuple[str, ...], most: int = 10) -> str:
    rest = msg(" and {count} more", len(labels) - most) if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}" + rest
