"""Fit the word table of a classifier to its training texts, and score each of them by a table that never saw it."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dikkat.data.labelled import LabelledText
from dikkat.evaluation.calibration import fit_label_lines, fit_linear, fit_temperature, prior_log_odds
from dikkat.evaluation.classification import class_scores
from dikkat_runtime.errors import msg
from dikkat_runtime.notices import counted
from dikkat_runtime.tasks.word_table import TablePart, WordTable
from dikkat_runtime.text.text_ngrams import NgramReader

MAX_WORDS = 8_000_000
"""Words that a table is fitted to, with as many more a text as there are classes, each of which has a number for it; of
longer data, texts are drawn by the seed."""
MAX_CHARACTERS = 4_000_000
"""Characters up to which n-grams of characters are tried, too."""
MAX_ROWS, MAX_NUMBERS = 1 << 20, 1 << 22
"""N-grams of one kind in a table, and numbers in it."""
STRENGTHS = (10.0, 30.0, 100.0, 300.0)
"""What is tried, from the middle on, up and then down."""
_MAX_SMALL_DATA, _FOLDS_OF_FEW, _MANY, _FOLDS_OF_MANY, _FOLDS = 1_000, 5, 5_000, 2, 3
"""Few texts are split into many folds, many into few."""
_MAX_SMALL_WORDS = 200_000
"""Words below which an n-gram that occurs once has a row."""
_CHOSEN_ON = 3_000
"""Texts on which the settings are chosen."""
_TEXTS_AT_ONCE = 1_000
_PRIOR_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Shares of the log-odds of a class by which rare ones may be favoured."""


class TableSettings(NamedTuple):
    """Hold what is chosen on texts that were kept from the fit."""

    kinds: tuple[str, ...]
    strength: float


@dataclass(frozen=True, slots=True, eq=False)
class FittedTable:
    """A word table with what it says of its own training texts where it has not seen them."""

    table: WordTable
    held_out: NDArray[np.float32]
    """(N, C): the logits of each training text by a table that was fitted without it."""
    favour: float
    """Share of the log-odds of a class by which rare ones are favoured in all logits, 0 for none."""
    choice: TableSettings
    drawn: int
    """Texts that it was fitted to."""
    seconds: float
    """Processor time of the fit."""


def fit_word_table(
    texts: Sequence[LabelledText],
    labels: Sequence[str],
    *,
    is_multi_label: bool,
    language: str,
    seed: int,
    balance: bool = False,
) -> FittedTable:
    """Fit a table to `texts`; the kinds of its n-grams, and how far it trusts them, are chosen on held-out folds.

    With `balance` its bias favours rare classes as much as is best for the macro F1 of the held-out texts.
    """
    started = time.process_time()
    generator = np.random.default_rng(seed)
    rows = _drawn(texts, len(labels), generator)
    reader = NgramReader(language)
    words = [reader.words(texts[row].text) for row in counted(rows.tolist(), msg("texts that the word table reads"))]
    wanted = wanted_outputs([texts[row] for row in rows], labels, is_multi_label=is_multi_label)
    characters = sum(len(" ".join(row)) for row in words)
    kinds = ("words", "characters") if characters <= MAX_CHARACTERS else ("words",)
    parts, features = _features(kinds, reader, words, wanted.shape[1])
    folds = generator.permutation(len(rows)) % _folds(len(rows))
    problem = _Problem(features, wanted, folds, is_exclusive=not is_multi_label)
    choice = problem.chosen(kinds)
    held_out, scale, shift = problem.calibrated(choice)
    prior = prior_log_odds(wanted, is_softmax=wanted.shape[1] > 1)
    favour = balancing_share(held_out, wanted, prior) if balance and not is_multi_label else 0.0
    held_out, shift = (held_out - favour * prior).astype(np.float32), shift - favour * prior
    weights, bias = problem.fitted(choice, np.arange(len(rows)))
    blocks = np.split(weights * scale, np.cumsum([len(parts[kind].hashes) for kind in choice.kinds])[:-1])
    table = WordTable([parts[kind] for kind in choice.kinds], blocks, np.asarray(bias * scale + shift), language)
    every = np.zeros((len(texts), len(labels)), np.float32)
    every[rows] = held_out if held_out.shape[1] == len(labels) else np.pad(held_out, ((0, 0), (1, 0)))
    rest = np.setdiff1d(np.arange(len(texts)), rows)
    for start in range(0, len(rest), _TEXTS_AT_ONCE):
        some = rest[start : start + _TEXTS_AT_ONCE]
        every[some] = table.scores([texts[row].text for row in some])
    return FittedTable(table, every, favour, choice, len(rows), time.process_time() - started)


def balancing_share(
    logits: NDArray[np.floating[Any]], wanted: NDArray[np.float64], prior: NDArray[np.float64]
) -> float:
    """Return the share of `prior` (K,) to take from `logits` (N, K) for the best macro F1 (Menon et al. 2021)."""

    def macro_f1(share: float) -> float:
        shifted, right = logits - share * prior, wanted
        if wanted.shape[1] == 1:
            shifted, right = np.pad(shifted, ((0, 0), (1, 0))), np.concatenate((1.0 - wanted, wanted), axis=1)
        names = tuple(map(str, range(right.shape[1])))
        return class_scores(names, right.argmax(axis=1).tolist(), shifted.argmax(axis=1).tolist()).macro_f1

    return max(_PRIOR_SHARES, key=macro_f1)


def wanted_outputs(
    texts: Sequence[LabelledText], labels: Sequence[str], *, is_multi_label: bool
) -> NDArray[np.float64]:
    """Return (N, K), 1 where a text has the label; of two exclusive classes there is one column, for the second."""
    index = {label: number for number, label in enumerate(labels)}
    wanted = np.zeros((len(texts), len(labels)))
    for row, text in enumerate(texts):
        wanted[row, [index[label] for label in text.labels]] = 1.0
    return wanted[:, 1:] if len(labels) == 2 and not is_multi_label else wanted


def _drawn(texts: Sequence[LabelledText], classes: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows that are fitted to, in their order: all, or so many that they have `MAX_WORDS` words."""
    lengths = np.fromiter((text.text.count(" ") + 1 + classes for text in texts), np.int64)
    if lengths.sum() <= MAX_WORDS:
        return np.arange(len(texts))
    order = generator.permutation(len(texts))
    return np.sort(order[: max(1, int((np.cumsum(lengths[order]) <= MAX_WORDS).sum()))])


def _folds(count: int) -> int:
    return _FOLDS_OF_FEW if count < _MAX_SMALL_DATA else _FOLDS_OF_MANY if count >= _MANY else _FOLDS


def _features(
    kinds: Sequence[str], reader: NgramReader, words: Sequence[Sequence[str]], outputs: int
) -> tuple[dict[str, TablePart], dict[str, Any]]:
    """Return the n-grams of each kind that are worth a row, and the sparse features (N, F) of the texts."""
    from scipy.sparse import csr_array

    parts, features = {}, {}
    # in short texts much hangs on what stands in one of them alone
    is_small = len(words) < 1_000 or sum(map(len, words)) < _MAX_SMALL_WORDS
    least = 1 if is_small else 2 if len(words) < 10_000 else 3
    for kind in kinds:
        ngrams = TablePart(kind, np.zeros(0, np.uint64), np.zeros(0, np.float32)).ngrams(reader, words)
        hashes, counts = np.unique(ngrams.hashes, return_counts=True)
        fewest = least
        if (counts >= least).sum() > (most := min(MAX_ROWS, MAX_NUMBERS // outputs)):
            fewest = max(least, int(np.sort(counts)[-most]) + 1)
        hashes = hashes[counts >= fewest]
        part = TablePart(kind, hashes, np.ones(len(hashes), np.float32))
        texts, rows, values, _ = part.features(ngrams, len(words))
        frequency = np.bincount(rows, minlength=len(hashes))
        part.idf = np.asarray(np.log((1 + len(words)) / (1 + frequency)) + 1.0, np.float32)
        values = values * part.idf[rows]
        norms = np.sqrt(np.bincount(texts, np.square(values, dtype=np.float64), minlength=len(words)))
        values = np.asarray(values / norms[texts], np.float32)
        starts = np.concatenate(([0], np.cumsum(np.bincount(texts, minlength=len(words)))))
        shape = len(words), len(part.hashes)
        parts[kind], features[kind] = part, csr_array((values, rows.astype(np.int32), starts), shape=shape)
    return parts, features


class _Problem:
    """The convex problem of a table, fitted to some of its texts and measured on others."""

    def __init__(
        self, features: dict[str, Any], wanted: NDArray[np.float64], folds: NDArray[np.int64], *, is_exclusive: bool
    ) -> None:
        self._features, self._wanted, self._folds, self._is_exclusive = features, wanted, folds, is_exclusive
        self._is_softmax = is_exclusive and wanted.shape[1] > 1
        self._loss = cache(self._measured_loss)
        self._joined = cache(self._join)

    def chosen(self, kinds: tuple[str, ...]) -> TableSettings:
        """Return the choice with the least loss on held-out texts: first the kinds, then the strength by steps."""
        middle = STRENGTHS.index(100.0)
        # of few texts the loss says too little to leave a kind out
        is_telling = len(kinds) > 1 and len(self._folds) >= _MAX_SMALL_DATA
        sets = [kinds, *((kind,) for kind in kinds)] if is_telling else [kinds]
        best = min((TableSettings(some, STRENGTHS[middle]) for some in sets), key=self._loss)
        for others in (STRENGTHS[middle + 1 :], STRENGTHS[:middle][::-1]):
            for strength in others:
                if self._loss(other := best._replace(strength=strength)) >= self._loss(best):
                    break
                best = other
        return best

    def calibrated(self, choice: TableSettings) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return held-out logits (N, K), calibrated, and the scale and shift (K,) that they were calibrated by."""
        count, outputs = self._wanted.shape
        scores = np.zeros((count, outputs))
        for fold in counted(range(int(self._folds.max()) + 1), msg("fits of the word table")):
            scores[self._folds == fold] = self._held_out_scores(choice, fold)
        if not self._is_exclusive:
            scale, shift = fit_label_lines(scores, self._wanted > 0.5)
        else:
            logits = scores if self._is_softmax else np.pad(scores, ((0, 0), (1, 0)))
            right = self._wanted.argmax(axis=1) if self._is_softmax else self._wanted[:, 0].astype(np.int64)
            scale = np.full(outputs, 1.0 / fit_temperature(logits, right))
            shift = np.zeros(outputs)
        return (scores * scale + shift).astype(np.float32), scale, shift

    def fitted(self, choice: TableSettings, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return weights and bias fitted to the texts of `rows`."""
        features = self._joined(choice.kinds)[rows]
        return fit_linear(features, self._wanted[rows], choice.strength, is_exclusive=self._is_exclusive)

    def _held_out_scores(self, choice: TableSettings, fold: int) -> NDArray[np.float64]:
        """Return logits of the texts of a fold by what is fitted to the others."""
        weights, bias = self.fitted(choice, np.flatnonzero(self._folds != fold))
        held_out = self._joined(choice.kinds)[np.flatnonzero(self._folds == fold)]
        return np.asarray(held_out @ weights, np.float64) + bias

    def _measured_loss(self, choice: TableSettings) -> float:
        """Return the loss of some texts that are held out from the fit to others."""
        # evenly spread: a file may be sorted by label
        some = np.unique(np.linspace(0, len(self._folds) - 1, _CHOSEN_ON).astype(np.int64))
        folds = range(int(self._folds.max()) + 1) if len(some) < _MAX_SMALL_DATA else range(1)
        return math.fsum(self._loss_of(choice, some, self._folds[some] == fold) for fold in folds)

    def _loss_of(self, choice: TableSettings, rows: NDArray[np.int64], is_held_out: NDArray[np.bool_]) -> float:
        features = self._joined(choice.kinds)[rows]
        # a few texts have few of the n-grams of all
        features = features[:, np.unique(features.indices)]
        own, others = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
        weights, bias = fit_linear(
            features[own], self._wanted[rows[own]], choice.strength, is_exclusive=self._is_exclusive
        )
        logits = np.asarray(features[others] @ weights, np.float64) + bias
        wanted = self._wanted[rows[is_held_out]]
        if self._is_softmax:
            return float(np.logaddexp.reduce(logits, axis=1).sum() - (logits * wanted).sum())
        return float((np.logaddexp(0.0, logits) - logits * wanted).sum())

    def _join(self, kinds: tuple[str, ...]) -> Any:
        from scipy.sparse import hstack

        parts = [self._features[kind] for kind in kinds]
        return parts[0] if len(parts) == 1 else hstack(parts, format="csr")
