"""Fit the word table of a classifier to its training texts, and score each of them by a table that never saw it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dikkat.data.labelled import LabelledText
from dikkat.evaluation.calibration import (
    fit_label_lines,
    fit_label_temperature,
    fit_linear,
    fit_temperature,
    prior_log_odds,
)
from dikkat.evaluation.classification import class_scores
from dikkat.kernels.switch import active
from dikkat_runtime.errors import msg
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.notices import counted
from dikkat_runtime.tasks.word_table import TablePart, WordTable
from dikkat_runtime.text.text_ngrams import NgramReader, Ngrams

MAX_WORDS = 8_000_000
"""Words that a table is fitted to, with as many more a text as there are classes, each of which has a number for it; of
longer data, texts are drawn by the seed."""
MAX_CHARACTERS = 4_000_000
"""Characters up to which n-grams of characters are tried, too."""
MAX_ROWS, MAX_NUMBERS = 1 << 20, 1 << 22
"""N-grams of one kind in a table, and numbers in it."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0)
"""Strengths that are tried, from the middle on, up and then down."""
MIN_TEXTS = (1, 5, 30, 100)
"""Texts that an n-gram must stand in; more are tried as long as that helps: in long texts rare n-grams are noise."""
_MAX_SMALL_DATA, _FOLDS_OF_FEW, _MANY, _FOLDS_OF_MANY, _FOLDS = 1_000, 5, 5_000, 2, 3
"""Few texts are split into many folds, many into few."""
_MAX_SMALL_WORDS = 200_000
"""Words below which an n-gram that occurs once has a row."""
_CHOSEN_ON = 3_000
"""Texts on which the settings are chosen."""
_CLEARLY_LESS = 0.98
"""Share of the loss with all n-grams below which it is better without some of them."""
_TEXTS_AT_ONCE = 1_000
_PRIOR_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Shares of the log-odds of a class by which rare ones may be favoured."""


class TableSettings(NamedTuple):
    """Hold what is chosen on texts that were kept from the fit."""

    kinds: tuple[str, ...]
    strength: float
    min_texts: int = MIN_TEXTS[0]


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
    """Fit a table to `texts`; which n-grams it has, and how far it trusts them, is chosen on held-out folds.

    With `balance` its bias favours rare classes as much as is best for the macro F1 of the held-out texts.
    """
    started = time.process_time()
    generator = np.random.default_rng(seed)
    rows = _drawn(texts, len(labels), generator)
    read = [texts[row] for row in counted(rows.tolist(), msg("texts that the word table reads"))]
    wanted = wanted_outputs(read, labels, is_multi_label=is_multi_label)
    kinds = ("words", "characters") if sum(len(text.text) for text in read) <= MAX_CHARACTERS else ("words",)
    reader = NgramReader(language, kernel_threads())
    parts, features = ngram_features(kinds, reader, [text.text for text in read], wanted.shape[1])
    folds = generator.permutation(len(rows)) % _folds(len(rows))
    problem = _Problem(features, wanted, folds, is_exclusive=not is_multi_label)
    choice = problem.chosen(kinds)
    held_out, scale, shift = problem.calibrated(choice)
    prior = prior_log_odds(wanted, is_softmax=wanted.shape[1] > 1)
    favour = balancing_share(held_out, wanted, prior) if balance and not is_multi_label else 0.0
    held_out, shift = (held_out - favour * prior).astype(np.float32), shift - favour * prior
    weights, bias = problem.fitted(choice)
    kept = [problem.columns(kind, choice.min_texts) for kind in choice.kinds]
    blocks = np.split(weights * scale, np.cumsum([len(columns) for columns in kept])[:-1])
    known = [
        TablePart(kind, parts[kind].hashes[columns], parts[kind].idf[columns])
        for kind, columns in zip(choice.kinds, kept, strict=True)
    ]
    table = WordTable(known, blocks, np.asarray(bias * scale + shift), language)
    table.threads = reader.threads
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


def kernel_threads() -> int:
    """Return the threads of the kernels that read words; 0 where there are none."""
    return available_threads() if active() == "native" else 0


def ngram_features(
    kinds: Sequence[str], reader: NgramReader, texts: Sequence[str], outputs: int, least: int = 0
) -> tuple[dict[str, TablePart], dict[str, Any]]:
    """Return the n-grams of each kind that occur so often as to be worth a row, and the sparse features (N, F)."""
    parts, features, count = {}, {}, len(texts)
    # in short texts much hangs on what stands in one of them alone
    is_small = count < 1_000 or sum(text.count(" ") + 1 for text in texts) < _MAX_SMALL_WORDS
    least = least or (1 if is_small else 2 if count < 10_000 else 3)
    for kind in kinds:
        ngrams = TablePart(kind, np.zeros(0, np.uint64), np.zeros(0, np.float32)).ngrams(reader, texts)
        hashes, counts = np.unique(ngrams.hashes, return_counts=True)
        fewest = least
        if (counts >= least).sum() > (most := min(MAX_ROWS, MAX_NUMBERS // outputs)):
            fewest = max(least, int(np.sort(counts)[-most]) + 1)
        hashes = hashes[counts >= fewest]
        part = TablePart(kind, hashes, np.ones(len(hashes), np.float32))
        block = sparse(part, ngrams, count)
        frequency = np.bincount(block.indices, minlength=len(hashes))
        part.idf = np.asarray(np.log((1 + count) / (1 + frequency)) + 1.0, np.float32)
        block.data *= part.idf[block.indices]
        parts[kind], features[kind] = part, of_length_one(block)
    return parts, features


def sparse(part: TablePart, ngrams: Ngrams, count: int) -> Any:
    """Return the sparse features (N, F) of the n-grams of `count` texts."""
    from scipy.sparse import csr_array

    indices, rows, values, _ = part.features(ngrams, count)
    starts = np.concatenate(([0], np.cumsum(np.bincount(indices, minlength=count)))).astype(np.int32)
    return csr_array((values, rows.astype(np.int32), starts), (count, len(part.hashes)))


def of_length_one(block: Any) -> Any:
    """Scale each row of sparse features (N, F) to length 1, in place."""
    norms = np.sqrt(block.multiply(block).sum(axis=1, dtype=np.float64))
    block.data = np.asarray(block.data / np.repeat(norms, np.diff(block.indptr)), np.float32)
    return block


class _Problem:
    """The convex problem of a table, fitted to some of its texts and measured on others."""

    def __init__(
        self, features: dict[str, Any], wanted: NDArray[np.float64], folds: NDArray[np.int64], *, is_exclusive: bool
    ) -> None:
        self._features, self._wanted, self._folds, self._is_exclusive = features, wanted, folds, is_exclusive
        self._is_softmax = is_exclusive and wanted.shape[1] > 1
        # evenly spread: a file may be sorted by label
        self._some = np.unique(np.linspace(0, len(folds) - 1, _CHOSEN_ON).astype(np.int64))
        self._loss = cache(self._measured_loss)
        self._joined = lru_cache(1)(partial(self._join, np.arange(len(folds))))

    def chosen(self, kinds: tuple[str, ...]) -> TableSettings:
        """Return the choice with the least loss on held-out texts: kinds, then strength and rarity by steps."""
        best = TableSettings(kinds, 100.0)
        for _ in range(2):
            counts = [best._replace(min_texts=count) for count in MIN_TEXTS]
            best = self._first_good(counts, self._walk(best, counts))
            best = self._walk(best, [best._replace(strength=strength) for strength in STRENGTHS])
        # of few texts the loss says too little to leave a kind out
        if len(kinds) == 1 or len(self._folds) < _MAX_SMALL_DATA:
            return best
        sets = [best, *(best._replace(kinds=(kind,)) for kind in kinds)]
        return self._first_good(sets, min(sets, key=self._loss))

    def _walk(self, best: TableSettings, choices: Sequence[TableSettings]) -> TableSettings:
        """Go from `best` along the choices, up and then down, as long as the loss falls."""
        start = choices.index(best)
        for others in (choices[start + 1 :], choices[:start][::-1]):
            for other in others:
                if self._loss(other) >= self._loss(best):
                    break
                best = other
        return best

    def _first_good(self, choices: Sequence[TableSettings], best: TableSettings) -> TableSettings:
        """Return the first choice that is not clearly worse than the best."""
        return next(choice for choice in choices if _CLEARLY_LESS * self._loss(choice) <= self._loss(best))

    def calibrated(self, choice: TableSettings) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return held-out logits (N, K), calibrated, and the scale and shift (K,) that they were calibrated by."""
        count, outputs = self._wanted.shape
        scores = np.zeros((count, outputs))
        for fold in counted(range(int(self._folds.max()) + 1), msg("fits of the word table")):
            scores[self._folds == fold] = self._held_out_scores(self._joined(choice), np.arange(count), choice, fold)
        if self._is_exclusive:
            scale, shift = np.full(outputs, 1.0 / self._temperature(scores, self._wanted)), np.zeros(outputs)
        else:
            scale, shift = fit_label_lines(scores, self._wanted > 0.5)
        return (scores * scale + shift).astype(np.float32), scale, shift

    def fitted(self, choice: TableSettings) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return weights and bias fitted to all texts."""
        return fit_linear(self._joined(choice), self._wanted, choice.strength, is_exclusive=self._is_exclusive)

    def columns(self, kind: str, min_texts: int) -> NDArray[np.int64]:
        """Return the n-grams of a kind that stand in so many texts."""
        block = self._features[kind]
        return np.flatnonzero(np.bincount(block.indices, minlength=block.shape[1]) >= min_texts)

    def _held_out_scores(
        self, features: Any, rows: NDArray[np.int64], choice: TableSettings, fold: int
    ) -> NDArray[np.float64]:
        """Return logits of those texts of `rows` that are of a fold, by what is fitted to the others of them."""
        is_held_out = self._folds[rows] == fold
        own, others = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
        weights, bias = fit_linear(
            features[own], self._wanted[rows[own]], choice.strength, is_exclusive=self._is_exclusive
        )
        return np.asarray(features[others] @ weights, np.float64) + bias

    def _measured_loss(self, choice: TableSettings) -> float:
        """Return the loss of some texts that are held out from the fit to others, at the best temperature."""
        some = self._some
        features = self._join(some, choice)
        # a few texts have few of the n-grams of all
        features = features[:, np.flatnonzero(np.bincount(features.indices))]
        folds = range(int(self._folds.max()) + 1) if len(some) < _MAX_SMALL_DATA else range(1)
        scores = np.concatenate([self._held_out_scores(features, some, choice, fold) for fold in folds])
        wanted = np.concatenate([self._wanted[some[self._folds[some] == fold]] for fold in folds])
        scores /= self._temperature(scores, wanted)
        if self._is_softmax:
            return float(np.logaddexp.reduce(scores, axis=1).sum() - (scores * wanted).sum())
        return float((np.logaddexp(0.0, scores) - scores * wanted).sum())

    def _temperature(self, scores: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
        if self._is_softmax:
            return fit_temperature(scores, wanted.argmax(axis=1))
        return fit_label_temperature(scores, wanted > 0.5)

    def _join(self, rows: NDArray[np.int64], choice: TableSettings) -> Any:
        """Return the chosen features of the texts of `rows`, those of each kind of length 1 again."""
        from scipy.sparse import hstack

        blocks = [self._features[kind] for kind in choice.kinds]
        blocks = [block if len(rows) == block.shape[0] else block[rows] for block in blocks]
        if choice.min_texts > 1:
            kept = [self.columns(kind, choice.min_texts) for kind in choice.kinds]
            blocks = [of_length_one(block[:, columns]) for block, columns in zip(blocks, kept, strict=True)]
        return blocks[0] if len(blocks) == 1 else hstack(blocks, format="csr")
