"""The numbers of confidence against formulas in float64: features, folds, Platt's calibration, caps and products."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.runtime.runs import SENTENCES, translator_run

from dikkat.config import TokenizerConfig
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.tasks import term_placement
from dikkat_runtime.tasks.aligner import token_spans
from dikkat_runtime.tasks.confidence import (
    Calibration,
    Confidence,
    Judge,
    PairScorer,
    WordConfidence,
    combined,
    features_of,
    flagged,
    given_features,
    words_of,
)
from dikkat_runtime.tasks.confidence_fitting import FOLDS, _calibrated
from dikkat_runtime.tasks.lexicon import Lexicon, WordLinks
from dikkat_runtime.tasks.logistic import Logistic
from dikkat_runtime.tasks.translations import OutputStyle, TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]
Logits = Callable[[Matrix], Matrix]


def sigmoid(x: Matrix) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-x)))


def fitted(x: Matrix, y: Matrix, ridge: float) -> Logits:
    """The logits of greatest penalized likelihood, by gradient steps of Newton from zero on standardized features."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z, penalty = np.c_[(x - mean) / scale, np.ones(len(x))], np.array([ridge] * x.shape[1] + [0.1])
    w = np.zeros(z.shape[1])
    for _ in range(40):
        p = sigmoid(z @ w)
        curvature = np.einsum("n,ni,nj->ij", p * (1 - p), z, z)
        w = w - np.linalg.inv(curvature + np.diag(penalty)) @ (z.T @ (p - y) + penalty * w)
    return lambda own: np.asarray(np.c_[(own - mean) / scale, np.ones(len(own))] @ w)


@pytest.fixture(scope="module")
def rows() -> tuple[Matrix, NDArray[np.bool_]]:
    """Rows of 43 pairs, those of a pair alike, in the order in which they are fitted: each kind after the other."""
    chance = np.random.default_rng(5)
    pairs = chance.normal(size=(43, 4))
    x = np.concatenate([pairs + 0.4 * chance.normal(size=pairs.shape) for _ in range(2)])
    y = chance.random(86) < sigmoid(np.tile(chance.normal(size=43) * 2, 2) + x[:, 0])
    return x, y


def expected_logits(
    x: Matrix, quality: Matrix, y: NDArray[np.bool_], new: Matrix, *, leaks: bool = False, platt: bool = True,
    apart: bool = True,
) -> Matrix:  # fmt: skip
    """The first half are own translations; the others have an intercept of their own where they are kept apart."""
    count = len(x) // 2
    pair_of, other = np.arange(len(x)) % count, np.repeat([0.0, 1.0], count)[:, None] * apart
    out_of_fold, zero = np.zeros(count), np.zeros((len(x), 1))
    columns = [0, 1, 2, 3, 4] if apart else [0, 1, 2, 3]
    z = np.c_[x, other][:, columns]
    for fold in range(FOLDS):
        others = np.ones(len(x), bool) if leaks else pair_of % FOLDS != fold
        own = np.arange(fold, count, FOLDS)
        out_of_fold[own] = fitted(z[others], quality[others], 1.0)(np.c_[x, zero][own][:, columns])
    whole = fitted(z, quality, 1.0)(np.c_[new, zero[: len(new)]][:, columns])
    return fitted(out_of_fold[:, None], y[:count].astype(float), 0.01)(whole[:, None]) if platt else whole


def test_the_calibration_is_that_of_models_that_have_not_read_the_pair(rows: tuple[Matrix, NDArray[np.bool_]]) -> None:
    x, y = rows
    new, count = np.random.default_rng(6).normal(size=(10, 4)), len(x) // 2
    quality = np.where(np.arange(len(x)) < count, 0.2 + 0.6 * sigmoid(x[:, 1] + y), y)
    right = y[:count].tolist()
    numbers = np.arange(len(x))
    logits = _calibrated(x, quality, right, numbers % count, numbers >= count).logits(new)
    np.testing.assert_allclose(logits, expected_logits(x, quality, y, new), atol=1e-6)
    # the numbers tell these apart
    for other in ({"leaks": True}, {"platt": False}, {"apart": False}):
        assert np.abs(logits - expected_logits(x, quality, y, new, **other)).max() > 0.05


def test_the_regression_is_that_of_the_formula() -> None:
    chance = np.random.default_rng(2)
    x = chance.normal(size=(60, 3)) * [1, 5, 0.1] + [0, 2, -1]
    y = chance.random(60) < sigmoid(x[:, 0])
    model = Logistic.fit(x, y.tolist())
    np.testing.assert_allclose(model.logits(x), fitted(x, y.astype(float), 1.0)(x), atol=1e-8)
    np.testing.assert_allclose(model.probabilities(x), sigmoid(model.logits(x)), atol=1e-12)


SCORES = TokenScores(
    (7, 8, 9, 10),
    np.c_[np.log([0.5, 0.25, 0.1, 0.8, 0.9]), [1.0, -2.0, 0.5, 40.0, 3.0], [0.1, 0.7, 1.3, 0.2, 0.4]],
    3,
)
"""Of four tokens and an end mark, after two source tokens and an end mark."""
TOKENS = np.array([0, 1, 3, 4, 5]), np.array([1, 2, 4, 5, 6])
"""The tokens of "ab c.", and the line break behind it."""


LINKS = WordLinks([900, 200], [500, 800, 300], [(0, 2), (3, 4), (4, 5)])
"""Of the words "ab", "c" and ".", over two of the source."""
LOG = [np.log(p / 1000 + 1e-3) for p in (900, 200, 500, 800, 300)]


def test_the_features_of_a_sentence_are_those_of_the_formulas() -> None:
    log_p, spread = [np.log(p) for p in (0.5, 0.25, 0.1, 0.8, 0.9)], (0.1, 0.7, 1.3, 0.2, 0.4)
    surprises = [one + other for one, other in zip(log_p, spread, strict=True)]
    ((row,), _, _) = features_of(["ab c."], [SCORES], TOKENS, [LINKS])
    assert row == pytest.approx(
        [
            sum(log_p) / 5, sum(log_p), -2.0, sum(spread) / 5, min(surprises), sum(LOG[:2]) / 2, sum(LOG[2:]) / 3,
            np.log(4 / 3), np.log(0.9),
        ],
        abs=1e-9,
    )  # fmt: skip
    sentences, words, _ = features_of(["ab c."], [SCORES], TOKENS, [Lexicon({}).compare("", "")])
    assert sentences[0, 5:8].tolist() == [0.0, 0.0, 0.0]
    assert words[:, -2:].tolist() == [[0.0, 0.0]] * 2


def test_a_given_translation_has_the_expected_odds_of_a_wrong_word_besides() -> None:
    sentences = np.arange(27.0).reshape(3, 9)
    features = given_features(sentences, [["a", "b"], [], ["c"]], np.array([2.0, -1.0, 3.0]))
    np.testing.assert_array_equal(features[:, :-1], sentences)
    odds = np.exp(-2.0) + np.exp(1.0), 0.0, np.exp(-3.0)
    np.testing.assert_allclose(features[:, -1], [-np.log(own + 1e-6) for own in odds])


def test_the_features_of_a_word_are_those_of_its_tokens() -> None:
    _, features, texts = features_of(["ab c."], [SCORES], TOKENS, [LINKS])
    mean, links = sum(np.log([0.5, 0.25, 0.1, 0.8, 0.9])) / 5, sum(LOG[2:]) / 3
    assert texts == [["ab", "c."]]
    assert features[0] == pytest.approx(
        [np.log(0.25), np.log(0.5 * 0.25) / 2, -2.0, 0.7, 0.0, np.log(0.1), mean, 2.0, LOG[2], links], abs=1e-9
    )
    # of the word and the full stop behind it, what is linked less
    assert features[1] == pytest.approx(
        [np.log(0.1), np.log(0.1 * 0.8) / 2, 0.5, 1.3, np.log(0.25), np.log(0.9), mean, 2.0, LOG[4], links], abs=1e-9
    )


def test_the_features_of_a_translation_are_the_same_in_any_company() -> None:
    other = TokenScores((5,), np.array([[-30.0, -25.0, 2.0], [-0.1, 2.0, 0.3]]), 2)
    without = WordLinks([700], [], [])
    spans = tuple(np.array([*own, 6 + at, 7 + at]) for own, at in zip(TOKENS, (0, 1), strict=True))
    texts, scores, links = ["ab c.", "x"], [SCORES, other], [LINKS, without]
    both = features_of(texts, scores, (spans[0], spans[1]), links)
    alone = features_of(texts[:1], scores[:1], TOKENS, links[:1])
    np.testing.assert_array_equal(both[0][0], alone[0][0])
    np.testing.assert_array_equal(both[1][:2], alone[1])
    # the floor of 20 nats, and a word without a link
    assert both[1][2].tolist() == [-20.0, -20.0, -20.0, 2.0, 0.0, -0.1, -10.05, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "bytes", "words"])
def test_tokens_stand_where_the_library_of_tokenizers_has_them(kind: Any, lowercase: bool) -> None:
    texts = ["Bir çay,  iki çay \u20ac5.", "", "köpek 😀 koşuyor", "Çay iki köpek"]
    config = TokenizerConfig(kind=kind, vocab_size=310, min_frequency=1, lowercase=lowercase and kind != "unigram")
    tokenizer = Tokenizer.train(texts * 8, config, ("tr", "tr"))
    engine: Any = None
    scorer = PairScorer(engine, (tokenizer, tokenizer), ("en", "tr"))
    scores = [TokenScores(row, np.zeros((len(row) + 1, 3)), 1) for row in tokenizer.encode_batch(texts, "tr")]
    pairs, line = [], 0
    for text in texts:
        _, spans = token_spans(tokenizer, text, "tr")
        pairs += [(line + start, line + max(end, start + 1)) for start, end in [*spans, (len(text), len(text) + 1)]]
        line += len(text) + 1
    found, joined = list(zip(*map(np.ndarray.tolist, scorer.spans(texts, scores)), strict=True)), "\n".join(texts)
    # white space before a word is in no word
    assert [(end - len(joined[start:end].lstrip(" ") or " "), end) for start, end in found] == pairs


def test_a_fault_leaves_at_most_a_half() -> None:
    words = (WordConfidence("a", 0.9),)
    assert flagged(Confidence(0.9, words), ("loop",)) == Confidence(0.5, words, ("loop",))
    assert flagged(Confidence(0.3), ("empty", "unfinished")) == Confidence(0.3, (), ("empty", "unfinished"))
    assert flagged(Confidence(0.9), ()) == Confidence(0.9)
    assert flagged(Confidence(0.5, (), ("loop",)), ("words lost",)).flags == ("loop", "words lost")


def test_a_line_is_as_right_as_its_pieces() -> None:
    parts = [Confidence(0.9, (WordConfidence("a", 0.8),), ("loop",)), Confidence(0.8), Confidence(0.5, (), ("loop",))]
    line = combined(parts, exact=True)
    assert line.probability == pytest.approx(0.9 * 0.8 * 0.5)
    assert (line.words, line.flags) == ((WordConfidence("a", 0.8),), ("loop",))
    assert combined(parts[:1], exact=True) is parts[0]
    # a line of captions in pieces was judged as if each had to be right, 0.15 instead of 0.55 here
    long = Confidence(0.6, (WordConfidence("a", 0.8),) * 3)
    assert combined([long, Confidence(0.4)], exact=False).probability == pytest.approx((3 * 0.6 + 0.4) / 4)
    assert combined([long, Confidence(0.4, (), ("loop",))], exact=False).probability == 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = translator_run(tmp_path_factory.mktemp("runs") / "run")
    (path / "held_out").mkdir()
    for name, text in (("source", "The {} is here."), ("target", "Die {} ist hier.")):
        lines = "".join(f"{text.format(word)}\n" for word in "abcdefghijklmnopqrstuvwx")
        (path / "held_out" / f"validation.{name}.txt").write_text(lines, encoding="utf-8")
    return path


def by_hand(model: dict[str, float], features: list[float]) -> float:
    *weights, intercept = model.values()
    logit = float(np.array(features) @ weights) + intercept
    return 1 / (1 + float(np.exp(-np.clip(logit, -30, 30))))


def test_probabilities_are_those_of_the_features_and_the_kept_weights(run: Path) -> None:
    translator = Translator.load(run, threads=1)
    judge = translator.judge(run)
    kept = json.loads((run / "confidence.json").read_text(encoding="utf-8"))
    for line in SENTENCES:
        if not line:
            continue
        (translation,) = translator.translate([line], confidence=judge)
        ids, written = (translator.tokenizer.encode(text) for text in (line, translation.text))
        scores = forced_scores(translator.engine, translator.engine.encode([ids]), [written])
        links = [judge.calibration.lexicon.compare(line, translation.text)]
        texts = [translation.text]
        (sentence,), words_features, _ = features_of(texts, scores, judge.scorer.spans(texts, scores), links)
        (of_pair,) = judge([line], texts)
        odds = sum(1 / by_hand(kept["given_word"], row) - 1 for row in words_features.tolist())
        rows = sentence.tolist()[:-1], [*sentence.tolist(), -np.log(odds + 1e-6)]
        for name, row, confidence in zip(("", "given_"), rows, (translation.confidence, of_pair), strict=True):
            assert confidence is not None
            probability = by_hand(kept[f"{name}sentence"], row)
            assert confidence.probability == pytest.approx(min(probability, 0.5) if confidence.flags else probability)
            expected = [by_hand(kept[f"{name}word"], own) for own in words_features.tolist()]
            assert [word.probability for word in confidence.words] == pytest.approx(expected)
            assert [word.text for word in confidence.words] == [word[0] for word in words_of(translation.text)]


def test_a_judge_that_is_sure_is_not_where_there_is_a_fault(run: Path) -> None:
    sentence, word = Logistic(np.array([0.0] * 10 + [2.0])), Logistic(np.array([0.0] * 10 + [-1.0]))
    calibration = Calibration(sentence, word, sentence, word, "right", 24, Lexicon({}))
    translator = Translator.load(run, threads=1)
    judge = Judge(translator.judge(run).scorer, calibration)
    sure, lost = judge(["A dog runs 25 km.", "A dog runs 25 km."], ["Ein Hund 25 km.", "Ein Hund."])
    assert sure.probability == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert (lost.probability, lost.flags) == (0.5, ("number lost",))
    assert [own.probability for own in lost.words] == pytest.approx([1 / (1 + np.exp(1.0))] * 2)


def test_a_term_that_was_not_placed_is_a_flag_and_a_field_of_json(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # no word is clear enough to give way to the term
    monkeypatch.setattr(term_placement, "CLEAR", 1.0)
    translator, notes = Translator.load(run, threads=1), TranslationNotes()
    lines = ["Yes.", "A dog runs on the beach."]
    judge, glossary = translator.judge(run), Glossary.of({"dog": ["Hund", "Köter"]})
    plain = translator.translate(lines, confidence=judge)
    held = list(translator.stream(lines, glossary=glossary, confidence=judge, notes=notes))
    rows = [
        json.loads(line)
        for number, translation in enumerate(held, start=1)
        for line in OutputStyle(json=True).lines(translation, number, notes)
    ]
    assert rows[0]["unplaced_terms"] == []
    assert rows[1]["unplaced_terms"] == [{"source": "dog", "targets": ["Hund", "Köter"]}]
    assert plain[1].confidence is not None
    assert rows[1]["flags"] == [*plain[1].confidence.flags, "term not placed"]
    assert rows[1]["confidence"] == round(min(0.5, plain[1].confidence.probability), 4)
    assert "term not placed in 1 line (line 2)" in notes.lines()[-1]
