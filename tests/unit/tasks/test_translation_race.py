"""Both translators learn the same few pairs, and learn them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.lessons.comparison.translation_race import RaceSettings, race


@pytest.mark.parametrize(("updates", "enough"), [pytest.param(120, 60.0, marks=pytest.mark.nightly), (40, 5.0)])
def test_both_learn_a_language_of_two_dozen_words(tmp_path: Path, updates: int, enough: float) -> None:
    """By day a third of the updates: some of the words stand right, where the untrained write none."""
    ones, twos = ["ada", "bora", "cem", "deniz", "eda", "fuat"], ["runs", "sleeps", "reads", "sings", "eats", "waits"]
    lines = [f"{one} {two} {where}\t{where.upper()} {one.upper()} {two.upper()}"
             for one in ones for two in twos for where in ("here", "there", "now", "today", "again")]  # fmt: skip
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    messages: list[str] = []
    result = race(
        RaceSettings((str(path),), held_out=20, enough=enough, updates=updates, every=20, cell="gru"),
        lambda done, pieces, what: messages.append(what),
    )
    transformer, recurrent = result.racers
    assert abs(transformer.parameters - recurrent.parameters) / transformer.parameters < 0.02
    assert min(transformer.best, recurrent.best) > enough
    assert {"training Transformer", "training GRU"} == set(messages)
    for racer in result.racers:
        assert [look.seconds for look in racer.looks] == sorted(look.seconds for look in racer.looks)
