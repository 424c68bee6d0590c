"""Collect the facts of a finished classifier for its report: data, faults, scores and mistakes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.explain.report.facts import Curve, Example, Rows, RunFacts
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.decisive_words import table_note
from dikkat.tasks.classification.evaluate import ClassifierEvaluation, held_out_texts, judge
from dikkat.tasks.classification.train import best_row
from dikkat.tasks.inspection.report import attention_of
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import Say, spoken_in
from dikkat_runtime.tasks.classifier import Classifier

WORST = 20
_SCORES = {
    "accuracy": msg("accuracy, %"),
    "micro_f1": msg("micro F1, %"),
    "macro_f1": msg("macro F1, %"),
    "subset_accuracy": msg("texts with exactly their labels, %"),
}
_SHOWN_CLASSES = 12
_ON_TEST_PART = msg("On the test part, {count} texts that training never looked at:")
_ON_VALIDATION_PART = msg("On the validation part, {count} texts by which the weights were chosen:")
_SHOWN_CHARACTERS = 600


def classifier_facts(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> RunFacts:
    """Classify the held-out part of `run`, and collect everything that its report shows."""
    say = spoken_in(language)
    classifier = Classifier.load(run.path)
    test = held_out_texts(run, "test")
    evaluation = judge(classifier, test or held_out_texts(run, "validation"))
    sentence = _ON_TEST_PART if test else _ON_VALIDATION_PART
    best, last = best_row([dict(row) for row in metrics], classifier.config), metrics[-1]
    scores = {name: say(label) for name, label in _SCORES.items() if hasattr(evaluation.scores, name) and name in best}
    parameters = sum(parameter.numel() for parameter in classifier.model.parameters())
    minutes = f"{last['seconds'] / 60:.1f}"
    model = classifier.config.model
    corpus = Corpus.open(run.corpus, "train", vocab_size=model.vocab_size)
    shown = sorted((text.text for text in evaluation.texts), key=len)[: len(evaluation.texts) // 2 + 1]
    return RunFacts(
        title=say("Classifier: {labels}", ", ".join(classifier.labels[:_SHOWN_CLASSES])),
        name=run.path.resolve().name,
        summary=[
            *((label, f"{100 * getattr(evaluation.scores, name):.1f}") for name, label in scores.items()),
            (say("validation loss, nats a text"), f"{best['valid_loss']:.3f}"),
            (say("minutes"), minutes),
            (say("parameters"), f"{parameters:,}"),
        ],
        scored_on=say(sentence.fill(f"{len(evaluation.texts):,}")),
        score_lines=[say(line) for line in evaluation.lines()],
        rate=say(
            msg("{passes} passes over the data, {count} texts read in {minutes} minutes.").fill(
                f"{last['epoch']:.1f}", f"{last['texts']:,}", minutes
            )
        ),
        metrics=metrics,
        curves=[
            Curve(say("Loss, nats"), (say("training"), say("validation")), ("train_loss", "valid_loss")),
            Curve(say("Validation scores"), tuple(scores.values())[:2], tuple(scores)[:2]),
        ],
        files=run.read_config()["data_source"]["data"],
        data=_data(run, say),
        faults=_faults(corpus, classifier, evaluation, say),
        lengths={say("training"): corpus.source_lengths},
        worst_note=say("The held-out texts of which the model was most sure, and wrong. Look for wrong labels first."),
        worst=_worst(evaluation, say, (say("model"), say("human"))),
        maps=attention_of(classifier, shown),
        model=[
            (say("layers"), f"{model.encoder_layers}"),
            (say("width"), f"{model.model_dim}"),
            (say("attention heads"), f"{model.num_heads}"),
            (say("positions"), model.positions),
            (say("pooling"), classifier.config.classifier.pooling),
            (say("objective"), classifier.config.classifier.objective),
            (say("vocabulary"), f"{model.vocab_size:,}"),
            (say("parameters"), f"{parameters:,}"),
        ],
        card=run.card.read_text(encoding="utf-8"),
        settings=run.config.read_text(encoding="utf-8"),
        note=say(table_note(classifier.config)),
    )


def _data(run: RunDirectory, say: Say) -> Rows:
    source = run.read_config()["data_source"]
    counts: dict[str, int] = source["classes"]
    held_back = 0 if source["validation_data"] else source["validation_texts"] + source["test_texts"]
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    rest = dict(ordered[_SHOWN_CLASSES:])
    return [
        (say("texts read"), f"{source['train_texts'] + sum(source['left_out'].values()) + held_back:,}"),
        *((say("left out: {reason}", msg(reason)), f"{count:,}") for reason, count in source["left_out"].items()),
        (say("texts to train on"), f"{source['train_texts']:,}"),
        *((say("training texts of {label}", label), f"{count:,}") for label, count in ordered[:_SHOWN_CLASSES]),
        *([(say("training texts of {count} other classes", len(rest)), f"{sum(rest.values()):,}")] if rest else []),
        (say("texts to validate on"), f"{source['validation_texts']:,}"),
        (say("texts to test on"), f"{source['test_texts']:,}"),
    ]


def _faults(corpus: Corpus, classifier: Classifier, evaluation: ClassifierEvaluation, say: Say) -> Rows:
    settings = classifier.config.classifier
    labels: dict[bytes, bytes] = {}
    others = unknown = 0
    for index in range(len(corpus)):
        text, label = corpus.source(index), corpus.target(index).tobytes()
        others += labels.setdefault(text.tobytes(), label) != label
        unknown += int((text == classifier.tokenizer.unk_id).sum())
    width = corpus.source(0).dtype
    # what the model reads of the held-out texts, as the corpus holds it
    encoded = classifier.encode([text.text for text in evaluation.texts])
    seen = sum(np.array(classifier.read(ids), width).tobytes() in labels for ids in encoded)
    # <bos> stands before what is read
    cut = int((corpus.source_lengths > settings.max_tokens).sum())
    return [
        (say("training texts that came before with another label"), f"{others:,}"),
        (say("of {count} held-out texts also occur in training", f"{len(evaluation.texts):,}"), f"{seen:,}"),
        (say("unknown tokens in training"), f"{unknown:,}"),
        (
            say("training texts of which only beginning and end are read ({limit} tokens)", settings.max_tokens),
            f"{cut:,}",
        ),
    ]


def _worst(evaluation: ClassifierEvaluation, say: Say, names: tuple[str, str]) -> list[Example]:
    return [
        Example(
            f"{100 * mistake.sureness:.1f} %",
            [
                (say("text"), mistake.text.text[:_SHOWN_CHARACTERS]),
                (names[0], ", ".join(mistake.answer.labels) or say("(no label)")),
                (names[1], ", ".join(mistake.text.labels) or say("(no label)")),
            ],
        )
        for mistake in evaluation.worst()[:WORST]
    ]
