"""Confidence: forced scores against PyTorch, the regression against scipy-free formulas, faults, and what is kept."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.runs import SENTENCES, translator_run

from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation import train
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.tasks import confidence_fitting
from dikkat_runtime.tasks.confidence import Calibration, PairScorer, faults, features_of
from dikkat_runtime.tasks.confidence_fitting import chrf, garbled, held_out_pairs, judged, with_error, words_right
from dikkat_runtime.tasks.lexicon import Lexicon
from dikkat_runtime.tasks.logistic import Logistic
from dikkat_runtime.tasks.translations import OutputStyle, TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as WithModel


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = translator_run(tmp_path_factory.mktemp("runs") / "run")
    pairs = [(f"The {word} is here.", f"Die {word} ist hier.") for word in "abcdefghijklmnopqrstuvwx"]
    (path / "held_out").mkdir()
    for side in (0, 1):
        name = ("source", "target")[side]
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (path / "held_out" / f"validation.{name}.txt").write_text(lines, encoding="utf-8")
    return path


def test_forced_scores_are_the_log_probabilities_of_the_model(run: Path) -> None:
    translator = WithModel.load(run, engine="torch")
    sources, targets = [[5, 6, 7], [9, 10, 11, 12]], [[8, 9], [20, 21, 22, 23]]
    for engine in (Translator.load(run, threads=1).engine, translator.engine):
        memory = engine.encode(sources)
        own = forced_scores(engine, memory, targets)
        # what is looked at does not depend on logits
        for looks, scores in zip(forced_scores(engine, memory, targets, scored=False), own, strict=True):
            np.testing.assert_array_equal(looks.attention, scores.attention)
        for source, target, scores in zip(sources, targets, own, strict=True):
            with torch.inference_mode():
                mask = torch.ones(1, len(source) + 1, dtype=torch.bool)
                logits = translator.model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]), mask)[
                    0
                ].log_softmax(dim=-1)
            expected = logits[torch.arange(len(target) + 1), torch.tensor([*target, 2])]
            np.testing.assert_allclose(scores.log_probabilities, expected.numpy(), atol=1e-4)
            entropy = -(logits.exp() * logits).sum(dim=-1)
            np.testing.assert_allclose(scores.values[:, 2], entropy.numpy(), atol=1e-4)
            best = logits.topk(2, dim=-1)
            other = torch.where(best.indices[:, 0] == torch.tensor([*target, 2]), best.values[:, 1], best.values[:, 0])
            np.testing.assert_allclose(scores.values[:, 1], (expected - other).numpy(), atol=1e-4)
            np.testing.assert_allclose(scores.attention.sum(axis=1), 1.0, atol=1e-5)
            assert scores.attention.shape == (len(target) + 1, len(source) + 1)


def test_what_reaches_beyond_the_learned_positions_is_improbable(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", positions="learned", max_positions=12)
    source, target = [5, 6, 7], list(range(20, 34))
    for engine in (Translator.load(run, threads=1).engine, WithModel.load(run, engine="torch").engine):
        (long,), (short,) = (forced_scores(engine, engine.encode([source]), [own]) for own in (target, target[:11]))
        # the last of the twelve positions writes the end mark, or what comes instead
        np.testing.assert_allclose(long.log_probabilities[:11], short.log_probabilities[:11], atol=1e-5)
        assert np.isfinite(long.log_probabilities[11])
        assert (long.log_probabilities[12:] == -np.inf).all()
        assert long.attention.shape == (15, 4)
        links, spans = Lexicon({}).compare("a", "a b"), (np.array([0, *[2] * 13, 3]), np.array([1, *[3] * 13, 4]))
        sentences, words, _ = features_of(["a b"], [long], spans, [links])
        assert np.isfinite([*sentences[0], *words.ravel()]).all()
        assert words[1, 0] == words[:, 0].min()


def test_the_regression_is_at_the_maximum_of_its_likelihood() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(size=(400, 3))
    y = chance.random(400) < 1 / (1 + np.exp(-(x @ [2.0, -1.0, 0.0] + 0.5)))
    model = Logistic.fit(x, y.tolist(), ridge=1e-6)
    standard = np.c_[(x - x.mean(axis=0)) / x.std(axis=0), np.ones(400)]
    slopes = model.weights[:-1] * x.std(axis=0)
    intercept = model.weights[-1] + model.weights[:-1] @ x.mean(axis=0)
    gradient = standard.T @ (y - model.probabilities(x)) - [*(1e-6 * slopes), 0.1 * intercept]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    kept = dict(zip(("a", "b", "c", "intercept"), model.weights.tolist(), strict=True))
    np.testing.assert_array_equal(Logistic.from_json(kept, "abc").weights, model.weights)
    with pytest.raises(ValueError, match="other features"):
        Logistic.from_json(kept, "abd")
    # with one kind of label alone the intercept is where the ridge of a tenth holds it: 400 (1 - p) = b / 10
    one_sided = Logistic.fit(x, [True] * 400)
    intercept = one_sided.weights[-1]
    assert 400 * (1 - 1 / (1 + np.exp(-intercept))) == pytest.approx(intercept / 10, rel=1e-3)
    np.testing.assert_allclose(one_sided.weights[:-1], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("It is 25 km away.", "Es ist weit weg.", ("number lost",)),
        ("I do not know him.", "Ich kenne ihn.", ("negation lost",)),
        ("I do not know him.", "Ich kenne ihn nicht.", ()),
        ("I don't know.", "Ich weiß es.", ("negation lost",)),
        ("A dog.", " ", ("empty",)),
        ("A dog runs.", "ein Hund " * 20, ("loop",)),
        ("A dog.", "Ein Hund.", ()),
    ],
)
def test_faults_that_need_no_model_are_flagged(source: str, target: str, found: tuple[str, ...]) -> None:
    assert faults(source, target, ("en", "de")) == found
    assert "unfinished" in faults(source, target, ("en", "de"), finished=False)


def test_turkish_negation_is_seen_in_suffixes() -> None:
    assert faults("I do not know.", "Bilmiyorum.", ("en", "tr")) == ()
    assert faults("He has no car.", "Arabası yok.", ("en", "tr")) == ()
    assert faults("I do not know.", "Biliyorum.", ("en", "tr")) == ("negation lost",)
    assert faults("I do not know.", "x", ("en", "xx")) == ()


def test_chrf_is_that_of_sacrebleu() -> None:
    from sacrebleu.metrics.chrf import CHRF

    for text, reference in (("A dog runs.", "A dog ran."), ("Bir köpek", "Köpek koşuyor"), ("abc", "abcdefgh")):
        assert chrf(text, reference) == pytest.approx(CHRF().sentence_score(text, [reference]).score, abs=0.01)


def test_labels_are_what_the_reference_says() -> None:
    assert words_right(["a", "x", "c"], "a b c") == [True, False, True]
    assert judged(["a b", "c"], ["a  b", "c"]) == ([True, True], "equal to the reference")
    # sacrebleu scores these 70.9, 47.0 and 0; none equals its reference
    outputs = ["ein Hund läuft dort", "ein Hund läuft", "xyz"]
    references = ["ein Hund läuft hier", "ein Hund rennt", "ein Hund läuft dort"]
    assert judged(outputs, references) == ([True, False, False], "chrF of at least 60 against the reference")
    # where half of them are exact, only exact ones are right
    assert judged(["a b", outputs[0]], ["a b", references[0]]) == ([True, False], "equal to the reference")


def test_a_planted_error_is_one_word() -> None:
    kinds = set()
    for seed in range(60):
        words = with_error("one two three", ["four five six"], seed).split()
        changed = [number for number, word in enumerate(words) if word != ("one", "two", "three")[number]]
        if len(words) == 2:
            assert words in (["two", "three"], ["one", "three"], ["one", "two"])
            kinds.add("less")
        elif sorted(words) == ["one", "three", "two"]:
            assert len(changed) == 2
            assert changed[1] == changed[0] + 1
            kinds.add("swapped")
        else:
            assert len(changed) == 1
            assert words[changed[0]] in ("four", "five", "six")
            kinds.add("another")
    assert kinds == {"less", "swapped", "another"}
    assert with_error("one", ["one"], 1) == "enox"


def test_a_garbled_source_has_its_words_with_their_letters_mixed() -> None:
    text, shares = "several people are walking slowly", set()
    for seed in range(40):
        words = garbled(text, seed).split()
        assert [sorted(word) for word in words] == [sorted(word) for word in text.split()]
        shares.add(sum(one != other for one, other in zip(words, text.split(), strict=True)))
    assert shares == {0, 1, 2, 3, 4, 5}
    assert garbled(text, 1) == garbled(text, 1)


def test_own_translations_are_fitted_with_words_that_nobody_knows_and_given_ones_with_all_errors(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, asked, rows = Translator.load(run, threads=1), list[str](), list[tuple[tuple[int, ...], list[int]]]()
    pairs, calibrated = held_out_pairs(run), confidence_fitting._calibrated

    def translate(texts: Sequence[str]) -> list[tuple[str, TokenScores | None]]:
        asked.extend(texts)
        return [(own.text, own.token_scores) for own in translator.stream(texts)]

    def recorded(features: Any, labels: Any, right: Any, pair_of: Any, is_reference: Any) -> Logistic:
        assert labels[is_reference].tolist() == [1.0] * (is_reference.sum() // 2) + [0.0] * (is_reference.sum() // 2)
        rows.append((features.shape, pair_of[is_reference].tolist()))
        return calibrated(features, labels, right, pair_of, is_reference)

    monkeypatch.setattr(confidence_fitting, "_calibrated", recorded)
    confidence_fitting.fit_calibration(pairs, translate, PairScorer(*translator._sides), Lexicon({}))
    assert asked == [*(source for source, _ in pairs), *(garbled(pairs[own][0], own) for own in range(0, 24, 3))]
    own, pair = (24 + 8 + 2 * 4, 8), (24 + 8 + 2 * 24, 10)
    assert rows == [(own, [0, 6, 12, 18] * 2), (pair, [*range(24)] * 2)]


def test_confidence_is_fitted_once_and_kept(run: Path, tmp_path: Path) -> None:
    translator, told = Translator.load(run, threads=1), list[str]()
    judge = translator.judge(run, on_progress=told.append)
    assert told == ["fitting confidence on 24 validation pairs, once …"]
    again = translator.judge(run, on_progress=told.append)
    assert len(told) == 1
    lines = [*SENTENCES, "{name} has 3 %s."]
    for one, other in zip(*(translator.translate(lines, confidence=each) for each in (judge, again)), strict=True):
        assert one == other
    plain = [each.text for each in translator.translate(lines)]
    assert [each.text for each in translator.translate(lines, confidence=judge)] == plain
    (run / "confidence.json").write_text('{"version": 1}', encoding="utf-8")
    assert Calibration.read(run) is None, "one of an earlier version is fitted again"
    (run / "confidence.json").write_text('{"version": 99}', encoding="utf-8")
    with pytest.raises(DataError, match=r"confidence\.json: damaged"):
        Calibration.read(run)
    (run / "confidence.json").unlink()
    with pytest.raises(MissingInputError, match=r"validation\.source\.txt"):
        translator.judge(tmp_path)


def test_lines_tell_what_was_asked_for_and_leave_out_what_is_not_sure(run: Path) -> None:
    translator = Translator.load(run, threads=1)
    judge = translator.judge(run)
    (translation,) = translator.translate(["A dog runs."], confidence=judge)
    probability, notes = translation.confidence.probability, TranslationNotes()  # type: ignore[union-attr]
    (line,) = OutputStyle(confidence=True, abstain=probability).lines(translation, 3, notes)
    assert line.startswith(f"{probability:.4f}\t{translation.text}\t")
    assert notes.lines() == []
    assert list(OutputStyle(abstain=min(1.0, probability + 1e-6)).lines(translation, 3, notes)) == [""]
    assert notes.lines() == ["1 line left empty by --abstain (first line 3)"]
    for wrong in ({"abstain": 1.5}, {"confidence": True}):
        with pytest.raises(UsageError):
            OutputStyle(**wrong).check(2, is_document=False)
    with pytest.raises(UsageError, match="--out"):
        OutputStyle(json=True).check(1, is_document=True)


def test_confidence_is_fitted_where_training_ends(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("confidence.json"))
    job = train.TranslatorJob(None)  # type: ignore[arg-type]
    assert job.remarks(RunDirectory(path), []) == []
    assert Calibration.read(path) is None
    monkeypatch.setattr(train, "FITTED_PAIRS", 24)
    (path / "confidence.json").write_text('{"of": "weights before these"}', encoding="utf-8")
    assert job.remarks(RunDirectory(path), []) == ["confidence was fitted on 24 validation pairs"]
    calibration = Calibration.read(path)
    assert calibration is not None
    assert calibration.pairs == 24
