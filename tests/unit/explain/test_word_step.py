"""The weights of a word are those of its tokens, added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.runtime.runs import SENTENCES, translator_run

from dikkat import Translator
from dikkat.explain.six_steps import word_step
from dikkat.nn.recorder import MapName
from dikkat.tasks.inspection.arithmetic import explain_cell


def test_a_word_has_the_weights_of_its_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat_runtime.localization._chosen", ["en"])
    translator = Translator.load(translator_run(tmp_path / "run"))
    sentence = SENTENCES[4]
    cell = explain_cell(translator, sentence, MapName("encoder", 1, "self"), 2, "3")
    table = word_step(cell.trace, sentence).table
    assert table is not None
    assert [row[0] for row in table.rows] == [*sentence.split(), "<eos>"]
    tokens, weights = cell.trace.trace.cell.key_tokens, cell.trace.trace.weights
    assert [token for row in table.rows for token in row[1].split(" ")] == list(tokens)
    start = 0
    for _, members, weight in table.rows:
        count = len(members.split(" "))
        assert float(weight) == pytest.approx(float(np.sum(weights[start : start + count])), abs=5.1e-5)
        start += count
    assert float(table.total[2]) == pytest.approx(1.0, abs=1e-4)
