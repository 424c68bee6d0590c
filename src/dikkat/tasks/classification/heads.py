"""The heads of a classifier on held-out texts: their maps, and the loss without them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from dikkat.data.labelled import read_labelled, with_known_labels
from dikkat.evaluation.calibration import label_probabilities, probabilities
from dikkat.evaluation.classification import class_scores, label_scores
from dikkat.explain.head_analysis.head_stats import HeadStatsCollector
from dikkat.explain.head_analysis.importance import Quality
from dikkat.nn.recorder import record_attention
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.decisive_words import table_note
from dikkat.tasks.classification.evaluate import held_out_texts
from dikkat.tasks.inspection.head_analysis import HeadSubject, spread
from dikkat.training.classification import pad_texts
from dikkat_runtime.tasks.classifier import BATCH_SIZE, Classifier


def classifier_heads(path: Path, data: Sequence[str], most: int) -> HeadSubject:
    classifier = Classifier.load(path)
    settings = classifier.config.classifier
    if data:
        read = read_labelled(data, separator=settings.label_separator)
        texts = list(with_known_labels(read, data, classifier.labels))
    else:
        texts = held_out_texts(RunDirectory.open(path), "validation")
    encoded = classifier.encode([text.text for text in texts])
    both = [(text, classifier.read(ids)) for text, ids in zip(texts, encoded, strict=True) if ids]
    chosen = [both[index] for index in spread(len(both), most, path)]
    rows = [ids for _, ids in chosen]
    known = classifier.table_logits([text.text for text, _ in chosen])
    wanted = np.array([[label in text.labels for label in classifier.labels] for text, _ in chosen])

    def observe(collector: HeadStatsCollector, numbers: Sequence[int]) -> None:
        for number in numbers:
            tokens, mask = pad_texts([rows[number]], torch.device("cpu"))
            with torch.no_grad(), record_attention(classifier.model) as maps:
                classifier.model(tokens, mask)
            labels = classifier.tokenizer.pieces(rows[number])
            for name, (weights,) in maps.items():
                collector.add(name, weights[0].double().numpy(), labels, labels)

    def measure(numbers: Sequence[int]) -> Quality:
        logits = np.zeros((len(numbers), len(classifier.labels)))
        order = sorted(range(len(numbers)), key=lambda index: len(rows[numbers[index]]))
        for start in range(0, len(order), BATCH_SIZE):
            some = order[start : start + BATCH_SIZE]
            tokens, mask = pad_texts([rows[numbers[index]] for index in some], torch.device("cpu"))
            with torch.inference_mode():
                logits[some] = classifier.model(tokens, mask).double().numpy()
        logits = known[list(numbers)] + classifier.decision.encoder_weight * logits
        return _quality(classifier, wanted[list(numbers)], logits)

    kind = "multi_label" if classifier.is_multi_label else "classifier"
    return HeadSubject(classifier.model, kind, len(rows), len(both), observe, measure, table_note(classifier.config))


def _quality(classifier: Classifier, wanted: np.ndarray, logits: np.ndarray) -> Quality:
    """Nats a text at temperature 1, and accuracy or micro F1 in percent."""
    tiny = np.finfo(np.float64).tiny
    if classifier.is_multi_label:
        shares = label_probabilities(logits)
        right = np.where(wanted, shares, 1.0 - shares)
        score = label_scores(classifier.labels, wanted, classifier.probabilities(logits) >= classifier.cuts).micro_f1
        return Quality(-float(np.log(np.maximum(right, tiny)).sum(axis=1).mean()), 100 * score)
    right = probabilities(logits)[wanted]
    scores = class_scores(classifier.labels, wanted.argmax(axis=1).tolist(), logits.argmax(axis=1).tolist())
    return Quality(-float(np.log(np.maximum(right, tiny)).mean()), 100 * scores.accuracy)
