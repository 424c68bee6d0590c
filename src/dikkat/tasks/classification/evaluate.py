"""Score a classifier on labelled texts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import CleaningReport
from dikkat.data.labelled import Columns, LabelledText, StoredLabels, read_labelled, with_known_labels
from dikkat.evaluation.calibration import calibration_error
from dikkat.evaluation.classification import ClassScores, LabelScores, class_scores, label_scores
from dikkat.explain.plots import plot_confusion
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.obvious_baseline import ObviousBaseline, compared, fit_baseline
from dikkat.tasks.classification.prepare import LABEL_BREAK, fingerprint
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, DikkatError, UsageError, msg, plural
from dikkat_runtime.localization import localized
from dikkat_runtime.notices import counted
from dikkat_runtime.tasks.classifier import Classification, Classifier
from dikkat_runtime.text.text_files import read_lines

_SHOWN_CHARACTERS = 200
_NO_LABEL = msg("(no label)")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A text that got another label than it has, or other labels."""

    text: LabelledText
    answer: Classification
    sureness: float
    """Probability of what is wrong: of the class it was taken for, or of the decision on a label that is furthest off.
    """

    @property
    def wanted(self) -> str:
        return ", ".join(self.text.labels) or _NO_LABEL

    @property
    def predicted(self) -> str:
        return ", ".join(self.answer.labels) or _NO_LABEL


@dataclass(frozen=True, slots=True)
class ClassifierEvaluation:
    """Scores of a classifier, with its answer to each text."""

    scores: ClassScores | LabelScores
    calibration_error: float
    """Mean gap between sureness and accuracy (expected calibration error, 15 bins); over all decisions on labels where
    a text may have several."""
    texts: list[LabelledText]
    answers: list[Classification]
    seconds: float
    """Time to classify."""
    baseline: ObviousBaseline | None = None
    """What the obvious baseline scores on the same texts, where the run holds its training texts."""

    def lines(self) -> list[str]:
        """Return the scores of all texts and of each class or label, one a line."""
        other = self.baseline
        return [
            *self.scores.lines(),
            "",
            *([compared(100 * float(getattr(self.scores, other.measure)), other.score)] if other else ()),
            msg("calibration error {calibration_error:.2f} %", 100 * self.calibration_error),
            msg("{texts} in {seconds:.1f} s", plural(len(self.texts), "text"), self.seconds),
        ]

    def worst(self) -> list[Mistake]:
        """Return all mistakes, the ones that the classifier was most sure of first."""
        pairs = zip(self.texts, self.answers, strict=True)
        wrong = [Mistake(*pair, _sureness(*pair)) for pair in pairs if set(pair[0].labels) != set(pair[1].labels)]
        return sorted(wrong, key=lambda mistake: -mistake.sureness)

    def mistakes(self, count: int) -> list[str]:
        """Return the `count` mistakes that the classifier was most sure of, one a line."""
        return [
            localized(
                msg("line {line}: is {label}, taken for {predicted} ({confidence:.1f} %)").fill(
                    mistake.text.line, mistake.wanted, mistake.predicted, 100 * mistake.sureness
                )
            )
            + f": {mistake.text.text[:_SHOWN_CHARACTERS]}"
            for mistake in self.worst()[:count]
        ]

    def draw(self, path: Path) -> None:
        """Draw the confusion matrix at `path`. Raises `UsageError` where a text may have several labels."""
        if isinstance(self.scores, LabelScores):
            raise UsageError("{path}: a confusion matrix needs texts with one label each", path)
        plot_confusion(self.scores.labels, self.scores.confusion, path)


def evaluate_classifier(
    path: Path,
    data: Sequence[str],
    columns: Columns = (None, None),
    note: Callable[[str], None] = lambda line: None,
    *,
    engine: EngineName = "auto",
    precision: PrecisionName = "float32",
    device: Device = "cpu",
    on_engine: Callable[[EngineInfo], None] = lambda info: None,
) -> ClassifierEvaluation:
    """Classify the texts of `data`, or of the run's own held-out test part when empty, and score the answers.

    `on_engine` receives what computes, and `note` how the data was read. Raises
    `DataError` with file and line for a label that the classifier was not trained on.
    """
    classifier = Classifier.load(path, precision, device, engine)
    on_engine(classifier.info)
    run = RunDirectory.open(path)
    if not data:
        if not (held_out := held_out_texts(run, "test")):
            raise UsageError("{path}: this run held out no test part; name data to evaluate on", run.path)
        return _with_baseline(run, classifier, judge(classifier, held_out), note)
    separator = run.read_config()["classifier"].get("label_separator")
    read = read_labelled(data, columns, separator=separator, note=note)
    texts = list(with_known_labels(read, data, classifier.labels))
    if not classifier.is_multi_label and (odd := next((text for text in texts if len(text.labels) != 1), None)):
        raise DataError(
            "{data}:{line}: has {count} labels, but this classifier was trained on texts with one label each"
        ).fill(" ".join(data), odd.line, len(odd.labels))
    return _with_baseline(run, classifier, judge(classifier, texts), note)


def judge(classifier: Classifier, texts: list[LabelledText]) -> ClassifierEvaluation:
    """Classify `texts` with `classifier`, which knows their labels, and score its answers."""
    started = time.monotonic()
    answers = classifier.classify(text.text for text in counted(texts))
    seconds = time.monotonic() - started
    scores = scores_of(classifier.labels, classifier.is_multi_label, texts, answers)
    probabilities = _shares(answers)
    if classifier.is_multi_label:
        flat = probabilities.reshape(-1)
        wanted = _has_label(classifier.labels, texts).reshape(-1).astype(np.int64)
        error = calibration_error(np.stack([1.0 - flat, flat], axis=1), wanted)
    else:
        wanted = np.array([classifier.labels.index(text.label) for text in texts])
        error = calibration_error(probabilities, wanted)
    return ClassifierEvaluation(scores, error, texts, answers, seconds)


def _with_baseline(
    run: RunDirectory, classifier: Classifier, evaluation: ClassifierEvaluation, note: Callable[[str], None]
) -> ClassifierEvaluation:
    settings = run.read_config()
    if not settings["classifier"].get("baseline"):
        return evaluation
    try:
        train = training_texts(run, settings)
    except DikkatError as error:
        note(msg("there is no baseline for this score: {error}", error))
        return evaluation
    baseline = fit_baseline(train, evaluation.texts, classifier.labels, settings["classifier"])
    return replace(evaluation, baseline=baseline)


def training_texts(run: RunDirectory, settings: dict[str, Any]) -> StoredLabels:
    """Return the training texts, read again from the data that the run names. Raises `DataError` where it is other."""
    source, report = settings["data_source"], CleaningReport(unit="texts")
    separator, columns = settings["classifier"].get("label_separator"), source.get("columns") or (None, None)
    texts = StoredLabels.store(read_labelled(source["data"], tuple(columns), separator=separator), report)
    if not source["validation_data"]:
        held_out = {text.text for text in [*held_out_texts(run, "validation"), *held_out_texts(run, "test")]}
        texts = texts.without(np.flatnonzero([text.text in held_out for text in texts]))
    if fingerprint(texts) != source["sha256"]:
        name = " ".join(source["data"])
        raise DataError("{name}: is no longer what this run was trained on; restore the file", name)
    return texts


def scores_of(
    labels: tuple[str, ...], is_multi_label: bool, texts: Sequence[LabelledText], answers: Sequence[Classification]
) -> ClassScores | LabelScores:
    if is_multi_label:
        predicted = np.array([[label in answer.labels for label in labels] for answer in answers])
        return label_scores(labels, _has_label(labels, texts), predicted)
    wanted = [labels.index(text.label) for text in texts]
    return class_scores(labels, wanted, _shares(answers).argmax(axis=1).tolist())


def _shares(answers: Sequence[Classification]) -> NDArray[np.float64]:
    return np.array([list(answer.probabilities.values()) for answer in answers])


def _has_label(labels: tuple[str, ...], texts: Sequence[LabelledText]) -> NDArray[np.bool_]:
    return np.array([[label in text.labels for label in labels] for text in texts])


def held_out_texts(run: RunDirectory, part: Literal["validation", "test"]) -> list[LabelledText]:
    """Read the texts of a held-out part with their labels; none where nothing was held out."""
    texts, labels = run.held_out(part, "source"), run.held_out(part, "target")
    if not texts.exists() or not texts.stat().st_size:
        return []
    return [
        LabelledText(tuple(label.split(LABEL_BREAK)) if label else (), text, line)
        for line, (label, text) in enumerate(zip(read_lines(labels), read_lines(texts), strict=True), start=1)
    ]


def _sureness(text: LabelledText, answer: Classification) -> float:
    if len(text.labels) == len(answer.labels) == 1:
        return answer.probabilities[answer.labels[0]]
    shares, differing = answer.probabilities, set(text.labels) ^ set(answer.labels)
    return max(shares[label] if label in answer.labels else 1 - shares[label] for label in differing)
