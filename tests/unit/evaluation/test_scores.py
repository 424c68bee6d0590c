"""Corpus scores: sacreBLEU's, with signatures."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from dikkat.evaluation import Scores, score_translations
from dikkat_runtime.errors import DataError

REFERENCES = ["The cat sat on the mat.", "A dog runs through the snow."]


@pytest.mark.seed("F39")
def test_perfect_and_hopeless_translations() -> None:
    perfect = score_translations(REFERENCES, REFERENCES)
    assert perfect.bleu == pytest.approx(100.0)
    assert perfect.chrf == pytest.approx(100.0)
    hopeless = score_translations(["", ""], REFERENCES)
    assert (hopeless.bleu, hopeless.chrf) == (0.0, 0.0)


def test_bleu_is_the_formula_of_the_paper() -> None:
    # 13a splits the full stop: 7 tokens each, so no penalty. Matches: 6 of 7 words, 4 of 6 pairs, 2 of 5, 1 of 4.
    score = score_translations(["The cat sat on a mat."], ["The cat sat on the mat."])
    assert score.bleu == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4))


def test_chrf_is_the_formula_of_the_paper() -> None:
    # Characters without spaces, n = 1…6, F with beta = 2: precision and recall averaged over n first.
    hypothesis, reference = "abcdefgh", "abcdefgx"
    precision = recall = sum((8 - n + 1 - 1) / (8 - n + 1) for n in range(1, 7)) / 6
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert score_translations([hypothesis], [reference]).chrf == pytest.approx(expected)


def test_case_counts() -> None:
    assert score_translations(["the cat sat on the mat."], REFERENCES[:1]).bleu < 100.0


def test_signatures_say_how() -> None:
    scores = score_translations(REFERENCES, REFERENCES)
    for part in ("nrefs:1", "case:mixed", "tok:13a", "smooth:exp", "version:"):
        assert part in scores.bleu_signature
    for part in ("nrefs:1", "case:mixed", "nc:6", "nw:0", "version:"):
        assert part in scores.chrf_signature


def test_lines_carry_score_and_signature() -> None:
    scores = Scores(bleu=38.016, bleu_signature="tok:13a", chrf=62.5, chrf_signature="nc:6")
    assert scores.lines() == ["BLEU  38.02  tok:13a", "chrF  62.50  nc:6"]
    assert str(scores) == "BLEU  38.02  tok:13a\nchrF  62.50  nc:6"


def test_unequal_counts_are_both_named() -> None:
    with pytest.raises(DataError, match="3 translations cannot be scored against 2 references"):
        score_translations(["a", "b", "c"], ["a", "b"])


def test_nothing_to_score() -> None:
    with pytest.raises(DataError, match="there is no translation to score"):
        score_translations([], [])


def test_empty_lines_on_either_side_are_scored() -> None:
    scores = score_translations(["The cat sat on the mat.", "", "a"], ["The cat sat on the mat.", "b", ""])
    assert 0.0 < scores.bleu < 100.0
    assert math.isfinite(scores.chrf)


def test_evaluation_loads_no_torch() -> None:
    code = "import sys, dikkat.evaluation; sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )
