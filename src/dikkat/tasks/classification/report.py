"""Collect the facts of a finished classifier for its report: data, faults, scores and mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.explain.report.facts import Curve, Example, ReaderFacts, Rows
from dikkat.explain.report.messages import report_messages
from dikkat.explain.report.reader_messages import ReaderMessages, reader_messages
from dikkat.explain.report.run_page import reader_page
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.decisive_words import table_note
from dikkat.tasks.classification.evaluate import ClassifierEvaluation, held_out_texts, judge
from dikkat.tasks.classification.train import best_row
from dikkat.tasks.inspection.report_maps import attention_of
from dikkat_runtime.localization import localized
from dikkat_runtime.tasks.classifier import Classifier

WORST = 20
_SHOWN_CLASSES = 12
_SHOWN_CHARACTERS = 600


def classifier_report(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> str:
    """Run the classifier of `run` on its held-out part, and return its report as HTML."""
    return reader_page(classifier_facts(run, metrics, language), language)


def classifier_facts(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> ReaderFacts:
    """Classify the held-out part of `run`, and collect everything that its report shows."""
    words, own = report_messages(language), reader_messages(language)
    classifier = Classifier.load(run.path)
    test = held_out_texts(run, "test")
    evaluation = judge(classifier, test or held_out_texts(run, "validation"))
    sentence = own.on_test_part if test else own.on_validation_part
    best, last = best_row([dict(row) for row in metrics], classifier.config), metrics[-1]
    scores = {
        name: getattr(own, name)
        for name in ("accuracy", "micro_f1", "macro_f1", "subset_accuracy")
        if hasattr(evaluation.scores, name) and name in best
    }
    parameters = sum(parameter.numel() for parameter in classifier.model.parameters())
    minutes = f"{last['seconds'] / 60:.1f}"
    model = classifier.config.model
    corpus = Corpus.open(run.corpus, "train", vocab_size=model.vocab_size)
    shown = sorted((text.text for text in evaluation.texts), key=len)[: len(evaluation.texts) // 2 + 1]
    return ReaderFacts(
        title=own.classifier.format(labels=", ".join(classifier.labels[:_SHOWN_CLASSES])),
        name=run.path.resolve().name,
        summary=[
            *((label, f"{100 * getattr(evaluation.scores, name):.1f}") for name, label in scores.items()),
            (own.loss_text, f"{best['valid_loss']:.3f}"),
            (words.minutes, minutes),
            (words.parameters, f"{parameters:,}"),
        ],
        scored_on=sentence.format(count=f"{len(evaluation.texts):,}"),
        score_lines=evaluation.lines(),
        rate=own.rate_texts.format(passes=f"{last['epoch']:.1f}", count=f"{last['texts']:,}", minutes=minutes),
        metrics=metrics,
        curves=[
            Curve(own.loss_curve, (words.on_training, words.on_validation), ("train_loss", "valid_loss")),
            Curve(own.score_curve, tuple(scores.values())[:2], tuple(scores)[:2]),
        ],
        files=run.read_config()["data_source"]["data"],
        data=_data(run, own, words.left_out),
        faults=_faults(corpus, classifier, evaluation, own),
        lengths=corpus.source_lengths,
        worst_note=own.worst_texts,
        worst=_worst(evaluation, own, (words.model, words.human)),
        maps=attention_of(classifier, shown),
        model=[
            (own.layers, f"{model.encoder_layers}"),
            (own.width, f"{model.model_dim}"),
            (own.heads, f"{model.num_heads}"),
            (own.positions, model.positions),
            (own.pooling, classifier.config.classifier.pooling),
            (own.objective, classifier.config.classifier.objective),
            (own.vocabulary, f"{model.vocab_size:,}"),
            (words.parameters, f"{parameters:,}"),
        ],
        card=run.card.read_text(encoding="utf-8"),
        settings=run.config.read_text(encoding="utf-8"),
        note=localized(table_note(classifier.config), language),
    )


def _data(run: RunDirectory, own: ReaderMessages, left_out: str) -> Rows:
    source = run.read_config()["data_source"]
    counts: dict[str, int] = source["classes"]
    held_back = 0 if source["validation_data"] else source["validation_texts"] + source["test_texts"]
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    rest = ordered[_SHOWN_CLASSES:]
    return [
        (own.texts_read, f"{source['train_texts'] + sum(source['left_out'].values()) + held_back:,}"),
        *((left_out.format(reason=reason), f"{count:,}") for reason, count in source["left_out"].items()),
        (own.train_texts, f"{source['train_texts']:,}"),
        *((own.class_texts.format(label=label), f"{count:,}") for label, count in ordered[:_SHOWN_CLASSES]),
        *([(own.others.format(count=len(rest)), f"{sum(count for _, count in rest):,}")] if rest else []),
        (own.validation_texts, f"{source['validation_texts']:,}"),
        (own.test_texts, f"{source['test_texts']:,}"),
    ]


def _faults(corpus: Corpus, classifier: Classifier, evaluation: ClassifierEvaluation, own: ReaderMessages) -> Rows:
    settings = classifier.config.classifier
    labels: dict[bytes, bytes] = {}
    others = unknown = 0
    for index in range(len(corpus)):
        text, label = corpus.source(index), corpus.target(index).tobytes()
        others += labels.setdefault(text.tobytes(), label) != label
        unknown += int((text == classifier.tokenizer.unk_id).sum())
    width = corpus.source(0).dtype
    seen = sum(row in labels for row in _read_rows(classifier, evaluation, width))
    # <bos> stands before what is read
    cut = int((corpus.source_lengths > settings.max_tokens).sum())
    return [
        (own.other_labels, f"{others:,}"),
        (own.seen.format(count=f"{len(evaluation.texts):,}"), f"{seen:,}"),
        (own.unknown, f"{unknown:,}"),
        (own.cut.format(most=settings.max_tokens), f"{cut:,}"),
    ]


def _read_rows(classifier: Classifier, evaluation: ClassifierEvaluation, width: Any) -> list[bytes]:
    """What the model reads of the held-out texts, as the corpus holds it."""
    encoded = classifier.encode([text.text for text in evaluation.texts])
    return [np.array(classifier.read(ids), width).tobytes() for ids in encoded]


def _worst(evaluation: ClassifierEvaluation, own: ReaderMessages, names: tuple[str, str]) -> list[Example]:
    return [
        Example(
            f"{100 * mistake.sureness:.1f} %",
            [
                (own.text, mistake.text.text[:_SHOWN_CHARACTERS]),
                (names[0], ", ".join(mistake.answer.labels) or own.no_label),
                (names[1], ", ".join(mistake.text.labels) or own.no_label),
            ],
        )
        for mistake in evaluation.worst()[:WORST]
    ]
