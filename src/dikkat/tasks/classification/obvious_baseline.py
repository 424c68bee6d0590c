"""Fit what anyone could type, TF-IDF with logistic regression of scikit-learn, to the texts of a classifier."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dikkat.data.labelled import LabelledText
from dikkat.evaluation.classification import class_scores, label_scores
from dikkat.tasks.classification import table_fitting
from dikkat.tasks.classification.table_fitting import kernel_threads, of_length_one, wanted_outputs
from dikkat_runtime.errors import msg
from dikkat_runtime.tasks.classifier import score_column
from dikkat_runtime.tasks.word_table import TablePart
from dikkat_runtime.text.text_ngrams import NgramReader

MAX_CHARACTERS = 2_000_000
"""Characters up to which n-grams of characters are counted, too."""
MAX_FITTED = 40_000_000
"""Characters that it is fitted to at most; of more, evenly spread texts."""
_STRENGTH, _MAX_STEPS = 10.0, 100
_MAX_WEIGHTS = 4_000_000
"""Weights that are fitted at once, each with some two dozen numbers more of the method; of more, class by class."""
_MANY = 5_000
"""Texts from which on what stands in one alone is left out."""


@dataclass(frozen=True, slots=True)
class ObviousBaseline:
    """The score of the obvious baseline on the validation texts, in percent, by the measure of the classifier."""

    measure: str
    """Its column in metrics.jsonl."""
    score: float
    seconds: float
    """Processor time of fitting and scoring."""


def fit_baseline(
    train: Sequence[LabelledText], validation: Sequence[LabelledText], labels: Sequence[str], settings: dict[str, Any]
) -> ObviousBaseline:
    """Fit it to `train`, and score it on `validation`; `settings` are those of the section `classifier`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    started = time.process_time()
    column = score_column(settings)
    characters = sum(len(text.text) for text in train)
    fitted = [train[index] for index in range(0, len(train), -(-characters // MAX_FITTED))]
    texts, others = ([text.text for text in part] for part in (fitted, validation))
    kinds = ("words", "characters") if characters <= MAX_CHARACTERS else ("words",)
    features, held_out = _tf_idf(kinds, texts, others, 2 if len(fitted) > _MANY else 1)
    is_multi_label = settings.get("objective") == "multi_label"
    wanted, right = (wanted_outputs(part, labels, is_multi_label=True) for part in (fitted, validation))
    balance = "balanced" if settings.get("balance") else None
    shared = {"C": _STRENGTH, "max_iter": _MAX_STEPS, "class_weight": balance}
    # coordinate descent in the dual ends four times as soon, for a class against the others
    model = LogisticRegression(solver="liblinear", dual=True, random_state=0, **shared)
    if is_multi_label:
        # a label that every text has, or none, needs no model
        varied = np.flatnonzero((wanted.sum(axis=0) > 0) & (wanted.sum(axis=0) < len(wanted)))
        predicted = np.tile(wanted.all(axis=0), (len(validation), 1))
        if len(varied):
            answers = OneVsRestClassifier(model).fit(features, wanted[:, varied]).predict(held_out)
            predicted[:, varied] = np.asarray(answers).reshape(len(validation), -1) > 0
        score = label_scores(labels, right > 0, predicted).micro_f1
    else:
        is_large = features.shape[1] * wanted.shape[1] > _MAX_WEIGHTS
        together = OneVsRestClassifier(model) if is_large else LogisticRegression(**shared)
        fit = (together if len(labels) > 2 else model).fit(features, wanted.argmax(axis=1))
        scores = class_scores(labels, right.argmax(axis=1).tolist(), fit.predict(held_out).tolist())
        score = scores.macro_f1 if column == "macro_f1" else scores.accuracy
    return ObviousBaseline(column, 100 * score, time.process_time() - started)


def compared(score: float, other: float) -> str:
    """Return one line on a score and that of the obvious baseline, `other`, and what to do where ours is worse."""
    if score >= other:
        return msg(
            "the baseline, TF-IDF with logistic regression, has {baseline:.2f} on the same texts, this run {score:.2f}"
        ).fill(other, score)
    return msg(
        "the baseline, TF-IDF with logistic regression, is better on the same texts: {baseline:.2f}, this run "
        "{score:.2f}; give more texts or --minutes, or use the baseline"
    ).fill(other, score)


def _tf_idf(kinds: Sequence[str], texts: Sequence[str], others: Sequence[str], least: int) -> tuple[Any, Any]:
    """Return what TfidfVectorizer of scikit-learn does of texts, and of others; n-grams stand in so many texts."""
    from scipy.sparse import hstack

    reader, blocks = NgramReader(threads=kernel_threads(), max_words=2), []
    parts, features = table_fitting.ngram_features(kinds, reader, texts, 1, least)
    for kind, block in features.items():
        kept = np.flatnonzero(np.bincount(block.indices, minlength=block.shape[1]) >= least)
        part = TablePart(kind, parts[kind].hashes[kept], parts[kind].idf[kept])
        held_out = table_fitting.sparse(part, part.ngrams(reader, others), len(others))
        blocks.append((of_length_one(block[:, kept]), held_out))
    fitted, held_out = (hstack(column, format="csr", dtype=np.float32) for column in zip(*blocks, strict=True))
    return fitted, held_out
