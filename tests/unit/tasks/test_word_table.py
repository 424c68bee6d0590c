"""The word table: its features against TF-IDF of scikit-learn, its fit against the loss, cuts against all cuts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from dikkat.data.labelled import LabelledText
from dikkat.evaluation.calibration import fit_linear, label_probabilities
from dikkat.evaluation.classification import class_scores, encoder_weight, label_cuts, label_scores
from dikkat.tasks.classification import obvious_baseline, table_fitting
from dikkat.tasks.classification.obvious_baseline import fit_baseline
from dikkat.tasks.classification.table_fitting import balancing_share, fit_word_table, wanted_outputs
from dikkat_runtime.tasks.word_table import TablePart, WordTable
from dikkat_runtime.text.text_ngrams import NgramReader

TEXTS = ["The film was good, the end too", "a bad film", "Iyi bir film! ÇOK iyi", "good good good film", "x", "is a it"]
MARKS = {"comedy": ("joke", "clown"), "music": ("song",), "war": ("tank",)}


def marked(count: int, seed: int) -> list[LabelledText]:
    """Texts of made-up words, few of which have labels, each decided by one word."""
    generator = random.Random(seed)
    vocabulary = [
        first + last for first in ["ba", "de", "fi", "go", "ku", "la"] for last in ["lan", "mer", "nis", "ron", "tup"]
    ]
    texts = []
    for line in range(count):
        words = generator.choices(vocabulary, k=generator.randint(8, 20))
        labels = tuple(label for label, share in (("comedy", 0.12), ("music", 0.1), ("war", 0.05))
                       if generator.random() < share)  # fmt: skip
        for label in labels:
            words.insert(generator.randrange(len(words)), generator.choice(MARKS[label]))
        texts.append(LabelledText(labels, " ".join(words), line))
    return texts


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("least", [1, 2])
def test_the_baseline_counts_words_as_scikit_learn(least: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obvious_baseline, "kernel_threads", lambda: threads)
    texts, others = [f"{text} {text[:5]}" for text in TEXTS], [*TEXTS[::-1], "nothing that is known", ""]
    theirs = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", min_df=least)
    wanted = theirs.fit_transform(texts).toarray(), theirs.transform(others).toarray()
    fitted, held_out = (part.toarray() for part in obvious_baseline._tf_idf(("words",), texts, others, least))
    assert fitted.shape == wanted[0].shape
    # their columns are in another order
    np.testing.assert_allclose(fitted @ fitted.T, wanted[0] @ wanted[0].T, atol=1e-6)
    np.testing.assert_allclose(held_out @ fitted.T, wanted[1] @ wanted[0].T, atol=1e-6)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_features_are_those_of_scikit_learn(kind: str) -> None:
    reader = NgramReader()
    words = [reader.words(text) for text in TEXTS]
    empty = TablePart(kind, np.zeros(0, np.uint64), np.zeros(0, np.float32))
    ngrams = empty.ngrams(reader, TEXTS)
    hashes = np.unique(ngrams.hashes)
    frequency = np.array([len(set(ngrams.texts[ngrams.hashes == one].tolist())) for one in hashes])
    idf = np.log((1 + len(TEXTS)) / (1 + frequency)) + 1
    texts, rows, values, known = TablePart(kind, hashes, idf.astype(np.float32)).features(ngrams, len(TEXTS))
    assert known.tolist() == np.bincount(ngrams.texts, minlength=len(TEXTS)).tolist()
    own = np.zeros((len(TEXTS), len(hashes)))
    own[texts, rows] = values
    if kind == "words":
        theirs = TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    else:
        theirs = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    joined = [" ".join(row) for row in words]
    wanted = theirs.fit_transform(joined).toarray()
    np.testing.assert_allclose(own @ own.T, wanted @ wanted.T, atol=1e-6)


def test_a_table_is_the_same_read_again_and_in_turkish_lower_case() -> None:
    texts = [LabelledText((label,), text, 0) for label, text in zip("abcabc", TEXTS, strict=True)] * 5
    fitted = fit_word_table(texts, ("a", "b", "c"), is_multi_label=False, language="tr", seed=1)
    again = WordTable.of_arrays(fitted.table.arrays(), 3, "tr")
    np.testing.assert_array_equal(again.scores(TEXTS), fitted.table.scores(TEXTS))
    np.testing.assert_array_equal(again.scores(["ILIK"]), again.scores(["ılık"]))
    one = np.concatenate([again.scores([text]) for text in TEXTS])
    np.testing.assert_allclose(one, again.scores(TEXTS), atol=1e-6)
    assert (fitted.held_out.shape, fitted.table.scores([""]).shape) == ((30, 3), (1, 3))


def test_one_thread_and_two_fit_the_same_table() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    fits = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            fits.append(fit_word_table(marked(600, 1), tuple(MARKS), is_multi_label=True, language="", seed=1))
    one, two = (fitted.table.arrays() | {"held_out": fitted.held_out} for fitted in fits)
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name], name)


def test_the_fit_is_at_the_bottom_of_a_convex_loss() -> None:
    from scipy.sparse import csr_array

    generator = np.random.default_rng(0)
    dense = (generator.random((80, 12)) < 0.3).astype(np.float32)
    right = (dense[:, :1] + generator.normal(0, 0.3, (80, 1)) > 0.5).astype(float)
    weights, bias = fit_linear(csr_array(dense), right, 1e6, is_exclusive=True)
    residual = 1 / (1 + np.exp(-(dense @ weights + bias))) - right
    assert abs(residual.mean()) < 0.02
    assert int(np.abs(weights).argmax()) == 0


def test_rare_labels_that_one_word_decides_are_given() -> None:
    train, test, labels = marked(800, 1), marked(300, 2), tuple(MARKS)
    fitted = fit_word_table(train, labels, is_multi_label=True, language="", seed=1)
    wanted = wanted_outputs(train, labels, is_multi_label=True) > 0
    cuts = label_cuts(label_probabilities(fitted.held_out), wanted)
    predicted = label_probabilities(fitted.table.scores([text.text for text in test])) >= cuts
    right = wanted_outputs(test, labels, is_multi_label=True) > 0
    assert label_scores(labels, right, predicted).micro_f1 > 0.96
    baseline = fit_baseline(train, test, labels, {"objective": "multi_label"})
    assert (baseline.measure, 80 < baseline.score <= 100) == ("micro_f1", True)


def test_a_baseline_of_many_weights_is_fitted_class_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fit then has the weights of one class; where every class has words of its own, both answer all texts."""
    from sklearn.linear_model import LogisticRegression

    sizes, fit = list[int](), LogisticRegression.fit

    def noted(self: LogisticRegression, features: Any, right: Any, *arguments: Any, **options: Any) -> Any:
        fitted = fit(self, features, right, *arguments, **options)
        sizes.append(fitted.coef_.size)
        return fitted

    monkeypatch.setattr(LogisticRegression, "fit", noted)
    labels = ("a", "b", "c")
    texts = [LabelledText((labels[n % 3],), f"{'xyz'[n % 3]}{n % 5} word{n % 7}", n + 1) for n in range(120)]
    together = fit_baseline(texts[:90], texts[90:], labels, {})
    monkeypatch.setattr(obvious_baseline, "_MAX_WEIGHTS", 10)
    apart = fit_baseline(texts[:90], texts[90:], labels, {})
    assert (together.score, apart.score) == (100.0, 100.0)
    assert sizes == [sizes[0], *[sizes[0] // 3] * 3]


@pytest.mark.parametrize("seed", range(3))
def test_no_other_cut_has_a_better_f1_or_more_texts_of_that_precision(seed: int) -> None:
    generator = np.random.default_rng(seed)
    right = generator.random((200, 2)) < (0.1, 0.4)
    chances = np.asarray(np.round(np.clip(0.3 * right + generator.random((200, 2)) * 0.6, 0, 1), 2), np.float64)

    def scores(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        result = label_scores(("a", "b"), right, chances >= cuts)
        return result.f1, result.precision, result.recall

    every = [scores(np.array([cut, cut])) for cut in np.arange(0, 1.005, 0.005)]
    best, _, _ = scores(label_cuts(chances, right))
    np.testing.assert_allclose(best, np.max([f1 for f1, _, _ in every], axis=0))
    _, precision, recall = scores(label_cuts(chances, right, precision=0.5))
    assert (precision >= 0.5).all()
    allowed = [np.where(exact >= 0.5, reached, 0) for _, exact, reached in every]
    np.testing.assert_allclose(recall, np.max(allowed, axis=0))


def test_an_encoder_of_noise_has_no_weight() -> None:
    generator = np.random.default_rng(1)
    right = generator.random((400, 1)) < 0.5
    known, noise = generator.normal(0, 1, (400, 1)), generator.normal(0, 1, (400, 1))

    def losses(logits: np.ndarray) -> np.ndarray:
        return np.asarray((np.logaddexp(0, logits) - logits * right)[:, 0])

    assert encoder_weight(np.zeros((400, 1)), noise * 0.0, losses) == 0.0
    assert encoder_weight(known, np.where(right, 1.0, -1.0) + 0.5 * noise, losses) > 0.5
    assert encoder_weight(np.where(right, 3.0, -3.0), np.where(right, -1.0, 1.0), losses) == 0.0


def test_loose_accents_are_read_as_composed_ones() -> None:
    assert NgramReader("tr").words("gu\u0308zel c\u0327ocuk") == ["güzel", "çocuk"]


def test_texts_of_other_words_are_unlike_those_of_training() -> None:
    fitted = fit_word_table(marked(600, 1), tuple(MARKS), is_multi_label=True, language="", seed=1)
    like = [text.text for text in marked(300, 2)]
    fitted.table.learn_novelty(like)
    unlike = ["Guten Morgen zusammen, wie geht es euch heute?", "def main(): return 0", "lan " * 3]
    again = WordTable.of_arrays(fitted.table.arrays(), 3)
    for table in (fitted.table, again):
        shares = table.read([*like, *unlike])[1]
        assert (shares[:300] > table.novelty.most).mean() <= 0.01
        assert (shares[300:] > table.novelty.most).all()


def test_rare_classes_are_favoured_for_macro_f1() -> None:
    generator = random.Random(4)
    words = [f"word{number}" for number in range(40)]

    def rows(count: int) -> list[LabelledText]:
        rows = []
        for line in range(count):
            label = "rare" if line % 50 == 0 else "common"
            own = ["odd"] if generator.random() < (0.6 if label == "rare" else 0.04) else []
            rows.append(LabelledText((label,), " ".join([*generator.choices(words, k=8), *own]), line))
        return rows

    train, test = rows(1_500), rows(1_000)
    scores = {}
    for balance in (False, True):
        fitted = fit_word_table(train, ("common", "rare"), is_multi_label=False, language="", seed=1, balance=balance)
        predicted = fitted.table.scores([text.text for text in test]).argmax(axis=1).tolist()
        scores[balance] = class_scores(("common", "rare"), [int(text.label == "rare") for text in test], predicted)
    assert scores[True].macro_f1 > scores[False].macro_f1 + 0.05
    assert scores[False].accuracy >= scores[True].accuracy


def test_rare_classes_are_favoured_by_the_share_with_the_best_macro_f1() -> None:
    """One text in fifty is of the rare class; logits that say the truth about noisy evidence name it nearly never."""
    generator = np.random.default_rng(1)
    rare = generator.random(20_000) < 0.02
    prior = np.array([np.log(0.02 / 0.98)])
    # two normal distributions with unit variance, 1.5 apart: the log-odds are linear in the evidence
    evidence = generator.normal(1.5 * rare)
    logits = (1.5 * evidence - 1.5**2 / 2 + prior)[:, None].astype(np.float32)
    wanted = rare[:, None].astype(np.float64)

    def macro_f1(share: float) -> float:
        predicted = logits[:, 0] - share * prior[0] > 0
        hits = [(predicted & rare).sum(), (~predicted & ~rare).sum()]
        sizes = [predicted.sum() + rare.sum(), (~predicted).sum() + (~rare).sum()]
        return float(np.mean([2 * hit / size for hit, size in zip(hits, sizes, strict=True)]))

    chosen = balancing_share(logits, wanted, prior)
    assert chosen == max((0.0, 0.25, 0.5, 0.75, 1.0, 1.25), key=macro_f1)
    assert 0.0 < chosen < 1.0


def _long_texts(seed: int, count: int) -> list[LabelledText]:
    """Texts of many words that occur in few of them; each class says forty common words a little more often."""
    generator, rows = random.Random(seed), []
    for line in range(count):
        label = generator.choice("ab")
        common = [f"{mark}{number}" for mark in (label, "a", "b") for number in range(40)]
        rare = [f"r{generator.randrange(1_000)}" for _ in range(150)]
        rows.append(LabelledText((label,), " ".join([*generator.choices(common, k=40), *rare]), line))
    return rows


def test_rare_ngrams_of_long_texts_are_left_out_where_they_are_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    train, other = _long_texts(1, 100), _long_texts(2, 300)

    def fitted() -> tuple[int, float]:
        table = fit_word_table(train, ("a", "b"), is_multi_label=False, language="", seed=1)
        scores = table.table.scores([text.text for text in other])
        right = [("a", "b")[row] == text.label for row, text in zip(scores.argmax(axis=1), other, strict=True)]
        return table.choice.min_texts, float(np.mean(right))

    rarest, accuracy = fitted()
    assert rarest >= 5
    monkeypatch.setattr(table_fitting, "MIN_TEXTS", (1,))
    assert accuracy > fitted()[1] + 0.05
