"""Two runs side by side: what is in common is counted, heads are matched, and both pages and numbers say the same."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics.chrf import CHRF
from tests.runtime.runs import language_model_run

from dikkat.config import build_config
from dikkat.explain.attention_map import AttentionMap
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.comparison import (
    CONTINUATION,
    MAX_TEXTS,
    Way,
    _Opened,
    compare_runs,
    marked,
    match_heads,
    overlap,
    words_alone,
)
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.cli.main import run as program
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.translator import Translator

TEXTS = ["my name is ada .", "she reads a small book"]


@pytest.fixture(scope="module")
def other(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of the same tokenizer whose weights are other random ones, and whose layers have two heads."""
    run = RunDirectory.create(tmp_path_factory.mktemp("other") / "run2")
    run.tokenizer.write_bytes((untrained / "tokenizer.json").read_bytes())
    content = json.loads((untrained / "config.json").read_text())
    content["model"]["num_heads"] = 2
    config = build_config({name: content[name] for name in ("model", "data")})
    parameters = FlatParameters(build_model(config.model, seed=5))
    run.save_weights(parameters.named(parameters.master), {"step": "0"})
    run.write_config({**config.model_dump(), "task": "translator"})
    return run.path


def test_the_share_in_common_is_the_sum_of_minima() -> None:
    first, second = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]])
    # (0.1 + 0.2 + 0.7 · 0) and 0: half of their sum
    assert overlap(first, second) == pytest.approx(0.15)
    # one less half of the distance of two distributions
    assert overlap(first, second) == pytest.approx(1 - np.abs(first - second).sum(1).mean() / 2)


def test_heads_are_matched_by_the_largest_sum() -> None:
    table = np.random.default_rng(3).random((4, 5))
    first, second = [(0, head) for head in range(4)], [(1, head) for head in range(5)]
    matches = match_heads("cross", table, first, second)
    best = max(
        sum(table[row, column] for row, column in enumerate(chosen)) for chosen in itertools.permutations(range(5), 4)
    )
    assert sum(match.overlap for match in matches) == pytest.approx(best)
    assert len({match.second for match in matches}) == 4
    # no head of the second layer has the name of one of the first
    assert all(np.isnan(match.namesake) for match in matches)


def test_special_tokens_are_one_column_and_no_row() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], dtype=np.float32)
    maps = AttentionMap(weights, ("le", "<eos>"), ("<bos>", "the", "<eos>"), "decoder", 0, 0, "cross")
    np.testing.assert_allclose(words_alone(maps), [[0.2, 0.8]], atol=1e-6)


def test_words_that_the_other_lacks_are_marked() -> None:
    assert marked(["a", "small", "grey", "cat"], ["a", "big", "cat"]) == "a [small grey] cat"
    assert marked(["a", "cat"], ["a", "cat", "sleeps"]) == "a cat"


def test_a_run_beside_itself_has_everything_in_common(untrained: Path) -> None:
    numbers = compare_runs(untrained, untrained, TEXTS[:1], (Way(1), Way(2, "int8"))).numbers
    assert len(numbers["heads"]) == 2 * 4 * 3
    assert all(match.first == match.second for match in numbers["heads"])
    assert all(match.overlap == pytest.approx(1.0, abs=1e-5) for match in numbers["heads"])
    assert [one["precision"] for one in numbers["runs"]] == ["float32", "int8"]


def test_two_runs(untrained: Path, other: Path) -> None:
    comparison = compare_runs(untrained, other, TEXTS)
    numbers = comparison.numbers
    outputs = [[one.text for one in Translator.load(run).translate(TEXTS)] for run in (untrained, other)]
    assert [one.outputs for one in numbers["texts"]] == [list(pair) for pair in zip(*outputs, strict=True)]
    chrf = [CHRF().sentence_score(second, [first]).score for first, second in zip(*outputs, strict=True)]
    assert numbers["chrf"] == pytest.approx(np.mean(chrf))
    # each of the two heads of a layer is laid beside one of four
    assert len(numbers["heads"]) == 2 * 2 * 3
    assert all(0 < match.overlap < 0.999 for match in numbers["heads"])
    page = comparison.page.html
    assert "<script" not in page
    assert len(page) < 300_000
    assert 'sandbox="allow-scripts"' in comparison._repr_html_()
    assert TEXTS[0] in page
    assert page.count("<figure>") == 2 * len(numbers["heads"])


def test_the_command_prints_and_writes(
    untrained: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    assert program(["compare", str(untrained), str(other), "--file", str(texts)]) == 0
    printed = capsys.readouterr().out
    assert "Heads: cross-attention" in printed
    assert "Equal in 0 of 2; chrF of the second against the first" in printed
    page = tmp_path / "page.html"
    assert program(["compare", str(untrained), str(other), TEXTS[0], "--out", str(page), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["sentences"] == 1
    assert page.read_text().startswith("<!doctype html>")


def test_what_is_cut_is_said_and_nothing_is_refused(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat.tasks.inspection.comparison.MAX_TEXTS", 1)
    comparison = compare_runs(untrained, untrained, TEXTS)
    assert "The first 1 of 2 sentences are shown; choose others." in comparison.explanation.introduction
    assert MAX_TEXTS > 1
    with pytest.raises(DataError, match="there is no text to compare on"):
        compare_runs(untrained, untrained, ["  "])


def test_of_a_text_that_leaves_no_room_a_language_model_reads_the_end(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "lm")
    opened = _Opened(run, Way())
    model = opened.model
    for count in (1, 6):
        text = " ".join(["Two men are outside."] * count)
        ids, written = model.tokenizer.encode(text), opened.read(text)
        # the model is given the last ids of its context, here 24
        assert written == "".join(part for part, _ in model.pieces(ids[-24:], CONTINUATION)) != ""
        whole = model.tokenizer.encode(text + written)[-24:]
        fresh = min(len(model.tokenizer.encode(text + written)) - len(ids), 23)
        with torch.no_grad():
            logs = model.model(torch.tensor([whole]))[0].log_softmax(-1)
        expected = np.exp(np.mean([float(logs[at - 1, whole[at]]) for at in range(len(whole) - fresh, len(whole))]))
        assert opened.confidence(text, written) == pytest.approx(expected, rel=1e-5)
    introduction = compare_runs(run, run, ["Two men", text]).explanation.introduction
    assert introduction[-1] == "1 of 2 texts are longer, with what follows, than the context: only their end is read."
    assert len(compare_runs(run, run, ["Two men"]).explanation.introduction) == 2


def test_a_language_model_computes_in_the_precision_that_is_asked_for_and_has_no_beam(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "lm")
    opened = _Opened(run, Way(precision="int8"))
    assert opened.model.info.precision == "int8"
    comparison = compare_runs(run, run, ["Two men"], (Way(), Way(precision="int8")))
    assert comparison.explanation.introduction == (f"A: {run}, float32.", f"B: {run}, int8.")
    with pytest.raises(UsageError, match="only a translator searches by beam"):
        compare_runs(run, run, ["Two men"], (Way(beam_size=2), Way()))
