"""Score a classifier on labelled texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat.data.labelled import LabelledText
from dikkat.data.text_files import read_lines
from dikkat.errors import UsageError
from dikkat.evaluation.calibration import calibration_error
from dikkat.evaluation.classification import ClassScores, class_scores
from dikkat.explain.class_pictures import plot_confusion
from dikkat.pipelines.classification import Classification, Classifier
from dikkat.pipelines.classifier_preparation import labelled_as_known
from dikkat.run_directory import RunDirectory

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ClassifierEvaluation:
    """Scores of a classifier, and what it said of each text."""

    scores: ClassScores
    calibration_error: float
    """Mean gap between sureness and accuracy (expected calibration error, 15 bins)."""
    texts: list[LabelledText]
    answers: list[Classification]
    seconds: float
    """Time to classify."""

    def lines(self) -> list[str]:
        """Accuracy, F1 and the confusion matrix."""
        return [
            *self.scores.lines(),
            "",
            f"calibration error {100 * self.calibration_error:.2f} %",
            f"{len(self.texts):,} texts in {self.seconds:.1f} s",
        ]

    def mistakes(self, count: int) -> list[str]:
        """The `count` mistakes that the classifier was most sure of."""
        pairs = zip(self.texts, self.answers, strict=True)
        wrong = [(text, answer) for text, answer in pairs if answer.label != text.label]
        wrong.sort(key=lambda pair: -pair[1].probability)
        return [
            f"line {text.line}: is {text.label}, taken for {answer.label} ({100 * answer.probability:.1f} %):"
            f" {text.text[:_SHOWN_CHARACTERS]}"
            for text, answer in wrong[:count]
        ]

    def draw(self, path: Path) -> None:
        """The confusion matrix as a picture."""
        plot_confusion(self.scores.labels, self.scores.confusion, path)


def evaluate_classifier(
    path: Path, data: Sequence[str], columns: tuple[str | None, str | None] = (None, None)
) -> ClassifierEvaluation:
    """Classify the texts of `data`, or of the run's own held-out test part when empty, and score the answers.

    Raises `DataError` with file and line for a label that the classifier was not trained on.
    """
    classifier = Classifier.load(path)
    labels = classifier.labels
    texts = list(labelled_as_known(data, columns, labels)) if data else _test_part(RunDirectory.open(path))
    started = time.monotonic()
    answers = classifier.classify(text.text for text in texts)
    seconds = time.monotonic() - started
    wanted = np.array([labels.index(text.label) for text in texts])
    found = np.array([list(answer.probabilities.values()) for answer in answers])
    scores = class_scores(labels, wanted.tolist(), found.argmax(axis=1).tolist())
    return ClassifierEvaluation(scores, calibration_error(found, wanted), texts, answers, seconds)


def _test_part(run: RunDirectory) -> list[LabelledText]:
    texts, labels = run.held_out("test", "source"), run.held_out("test", "target")
    if not texts.exists() or not texts.stat().st_size:
        raise UsageError(f"{run.path}: this run held no test part out; name data to evaluate on")
    rows = zip(read_lines(labels), read_lines(texts), strict=True)
    return [LabelledText(label, text, line) for line, (label, text) in enumerate(rows, start=1)]
