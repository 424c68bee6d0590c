"""Fits what turns features into probabilities, on the validation part that lies in a run directory.

Sentences: own translations and what the reference says of them, the references themselves, and references with a
planted error, so that errors which the model seldom makes are known too. What comes of it is then calibrated on the own
translations alone (Platt 1999), out of fold. Words: right are those that stand in the reference in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import MissingInputError, UsageError
from dikkat_runtime.tasks.confidence import Calibration, PairScorer
from dikkat_runtime.tasks.confidence_features import sentence_features, word_features, words_of
from dikkat_runtime.tasks.logistic import Logistic, Matrix
from dikkat_runtime.text.character_scores import chrf

_KINDS = 3
"""Translations, references, and references with an error."""
MOST_PAIRS = 1000
FEWEST_PAIRS = 20
FOLDS = 5
GOOD_CHRF = 60.0
"""Character F-score (Popović 2015) from which a translation counts as right where few equal their reference."""
EXACT_SHARE = 0.5
"""Of validation translations that equal their reference, from which on only such count as right."""


def held_out_pairs(run: Path) -> list[tuple[str, str]]:
    """The validation pairs of a run directory. Raises `MissingInputError` where they do not lie in it."""
    sides = []
    for side in ("source", "target"):
        path = run / "held_out" / f"validation.{side}.txt"
        try:
            sides.append(path.read_text(encoding="utf-8").split("\n")[:-1])
        except OSError as error:
            raise MissingInputError(
                f"{path}: cannot be read ({error.strerror}); confidence is fitted on it, once, where the run was"
                " trained: then take confidence.json along"
            ) from None
    pairs = [pair for pair in zip(*sides, strict=False) if all(part.strip() for part in pair)]
    if len(pairs) < FEWEST_PAIRS:
        raise UsageError(
            f"{run}: {len(pairs)} validation pairs are too few to fit confidence on; {FEWEST_PAIRS} are not"
        )
    return pairs[:MOST_PAIRS]


def fit_calibration(
    pairs: Sequence[tuple[str, str]], translate: Callable[[Sequence[str]], Sequence[str]], scorer: PairScorer
) -> Calibration:
    """What is fitted for the translator behind `translate` and `scorer`."""
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    outputs = list(translate(sources))
    right, meaning = judged(outputs, references)
    planted = [with_error(reference, references, number) for number, reference in enumerate(references)]
    texts = [*outputs, *references, *planted]
    found = scorer.scores(sources * _KINDS, texts)
    scores = [each for each in found if each is not None]
    if len(scores) != len(texts):
        raise UsageError("the vocabulary has no tokens for a validation sentence")
    labels = [*right, *[True] * len(references), *[False] * len(planted)]
    sentence = _calibrated(np.array([sentence_features(each) for each in scores]), np.array(labels))
    rows, are_right = list[list[float]](), list[bool]()
    for text, reference, each in zip(texts, references * _KINDS, scores, strict=True):
        words = words_of(text)
        rows += word_features(each, words, scorer.spans(text))
        are_right += words_right([word.text for word in words], reference)
    return Calibration(sentence, Logistic.fit(np.array(rows), are_right), meaning, len(pairs))


def judged(outputs: Sequence[str], references: Sequence[str]) -> tuple[list[bool], str]:
    """Which translations are right, and what right means here."""
    exact = [_plain(output) == _plain(reference) for output, reference in zip(outputs, references, strict=True)]
    if sum(exact) >= EXACT_SHARE * len(exact):
        return exact, "equal to the reference"
    good = [chrf(output, reference) >= GOOD_CHRF for output, reference in zip(outputs, references, strict=True)]
    return good, f"chrF of at least {GOOD_CHRF:.0f} against the reference"


def words_right(words: Sequence[str], reference: str) -> list[bool]:
    """For each word of a translation whether it stands in the reference, in the same order."""
    others = [word.text for word in words_of(reference)]
    found = [False] * len(words)
    for block in SequenceMatcher(None, list(words), others, autojunk=False).get_matching_blocks():
        found[block.a : block.a + block.size] = [True] * block.size
    return found


def with_error(text: str, others: Sequence[str], seed: int) -> str:
    """A text with a word of another one in the place of one of its own, or without one, or with two changed places."""
    chance = random.Random(seed)
    words, other = text.split(), chance.choice(others).split()
    place = chance.randrange(len(words))
    kind = chance.choice(("another", "another", "less", "swapped"))
    if kind == "less" and len(words) > 1:
        del words[place]
    elif kind == "swapped" and place + 1 < len(words) and words[place] != words[place + 1]:
        words[place : place + 2] = words[place + 1], words[place]
    else:
        choices = [word for word in other if word != words[place]] or [words[place][::-1] + "x"]
        words[place] = chance.choice(choices)
    return " ".join(words)


def _calibrated(features: Matrix, labels: NDArray[np.bool_]) -> Logistic:
    """Weights from all rows, whose scale and intercept fit the first third, by models that have not seen its pairs."""
    count = len(features) // _KINDS
    fold_of, logits = np.arange(len(features)) % count % FOLDS, np.zeros(count)
    for fold in range(FOLDS):
        unseen, own = fold_of != fold, fold_of[:count] == fold
        logits[own] = Logistic.fit(features[unseen], labels[unseen].tolist()).logits(features[:count][own])
    platt = Logistic.fit(logits[:, None], labels[:count].tolist(), ridge=0.01)
    scale = platt.weights[0] / platt.scales[0]
    whole = Logistic.fit(features, labels.tolist())
    weights = whole.weights * scale
    weights[-1] += platt.weights[1] - scale * platt.means[0]
    return Logistic(whole.means, whole.scales, weights)


def _plain(text: str) -> str:
    return " ".join(text.split())
