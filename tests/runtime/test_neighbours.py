"""States of corrections: what the kernels add to the logits, and that near sentences come back as a person wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.runs import translator_run

from dikkat_runtime.engine.contract import SearchRequest
from dikkat_runtime.engine.neighbours import RATE, WEIGHT, Neighbours, NeighboursOfBatch
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.confidence_fitting import chrf
from dikkat_runtime.tasks.corrections import MAX_NEAR, MIN_SIMILARITY, Corrections, NearIndex
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as WithModel

ENGINES: dict[str, Callable[[Path], Translator]] = {
    "float32": lambda run: Translator.load(run, threads=1),
    "int8": lambda run: Translator.load(run, precision="int8", threads=2),
    "torch": lambda run: WithModel.load(run, engine="torch"),
}
SOURCES = [[9, 12, 7], [5, 6, 8, 11, 30], [14]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return translator_run(tmp_path / "run")


def first_states(engine: Any, sources: list[list[int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logits and states of the first step without neighbours."""
    steps = engine.steps(engine.encode(sources), 1)
    logits = steps.step([BOS_ID] * len(sources))
    return logits.astype(np.float64), steps.states().astype(np.float64)


@pytest.mark.parametrize("name", ENGINES)
def test_probabilities_are_those_of_the_formula(run: Path, name: str) -> None:
    engine = ENGINES[name](run).engine
    logits, states = first_states(engine, SOURCES)
    chance = np.random.default_rng(3)
    spread = np.sqrt((states[0] ** 2).mean())
    keys = np.asarray(states[0] + spread * chance.normal(0, [[0.0], [0.1], [0.2], [0.3]], (4, len(states[0]))))
    # and one that looks the other way
    keys = np.asarray([*keys, -states[0]], np.float32)
    own = Neighbours(keys, np.array([3, 40, 3, 7, 9]))
    steps = engine.steps(engine.encode(SOURCES), 1, [own, None, None])
    written = np.asarray(steps.step([BOS_ID] * 3), np.float64)
    assert np.array_equal(written[1:], np.asarray(logits[1:], np.float32))
    expected = np.exp(logits[0] - logits[0].max())
    expected /= expected.sum()
    distances = ((keys.astype(np.float64) - states[0]) ** 2).sum(axis=1) / (keys.astype(np.float64) ** 2).sum(axis=1)
    assert distances[-1] * RATE > 16
    for distance, token in zip(distances[:-1], own.tokens[:-1], strict=True):
        expected[token] += WEIGHT * np.exp(-RATE * distance)
    found = np.exp(written[0] - written[0].max())
    assert found / found.sum() == pytest.approx(expected / expected.sum(), abs=2e-4)


@pytest.mark.parametrize("name", ["float32", "int8"])
def test_without_a_near_state_no_bit_changes(run: Path, name: str) -> None:
    engine = ENGINES[name](run).engine
    far = Neighbours(np.asarray(-first_states(engine, SOURCES)[1], np.float32) * 9, np.arange(3) + 5)
    memory, options = engine.encode(SOURCES), BeamOptions(beam_size=3, n_best=3)
    assert engine.search(memory, options, SearchRequest(neighbours=[far] * 3)) == engine.search(memory, options)
    assert engine.search(memory, options, SearchRequest(neighbours=[None] * 3)) == engine.search(memory, options)
    assert NeighboursOfBatch.of([None, None]) is None


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3, n_best=2)])
@pytest.mark.parametrize("name", ["float32", "int8"])
def test_a_sentence_looks_at_its_own_neighbours_alone(run: Path, name: str, options: DecodingOptions) -> None:
    engine = ENGINES[name](run).engine
    _, states = first_states(engine, SOURCES)
    own = [Neighbours(np.asarray(states[[row]], np.float32), np.array([20 + row])) for row in range(3)]
    batch = engine.search(engine.encode(SOURCES), options, SearchRequest(neighbours=[own[0], None, own[2]]))
    for row, neighbours in enumerate((own[0], None, own[2])):
        alone = engine.search(engine.encode([SOURCES[row]]), options, SearchRequest(neighbours=[neighbours]))
        assert alone[0] == batch[row]
    # a weight of 64 beside probabilities that sum to one
    assert batch[0][0].tokens[0] == 20
    assert batch[2][0].tokens[0] == 22


def test_engines_find_the_same_with_neighbours(run: Path) -> None:
    pairs = [("The small cat is sleeping.", "Küçük kedi uyuyor."), ("Where are my keys?", "Anahtarlarım nerede?")]
    for source, target in pairs:
        Corrections(run).add(source, target)
    lines = ["The small cat is running.", "Where are the keys?", "Yes."]
    texts = []
    for name in ("float32", "torch"):
        translator = ENGINES[name](run)
        translator.corrections = Corrections(run)
        texts.append([each.text for each in translator.translate(lines, BeamOptions(max_length_factor=0.5))])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["float32", "int8"])
def test_sentences_like_a_corrected_one_come_nearer_to_it(run: Path, name: str) -> None:
    source, target = "The small cat is sleeping.", "Küçük kedi uyuyor."
    plain = ENGINES[name](run)
    lines = ["The small cat is sleeping now.", "The small dog is sleeping.", "A small cat is sleeping!"]
    others = ["Where are my keys?", "Two men play chess in the park."]
    before = [each.text for each in plain.translate([*lines, *others])]
    Corrections(run).add(source, target)
    translator = ENGINES[name](run)
    after = [each.text for each in translator.translate([*lines, *others])]
    assert after[3:] == before[3:]
    gains = [chrf(new, target) - chrf(old, target) for new, old in zip(after[:3], before[:3], strict=True)]
    assert min(gains) >= 0
    assert max(gains) > 20
    # what is drawn is drawn as before
    drawn = SamplingOptions(seed=2)
    assert translator.translate(lines, drawn) == plain.translate(lines, drawn)
    Corrections(run).remove(source)
    assert [each.text for each in translator.translate([*lines, *others])] == before


def test_the_suggestions_of_a_session_follow_corrections_too(run: Path) -> None:
    Corrections(run).add("The small cat is sleeping.", "Küçük kedi uyuyor.")
    translator = ENGINES["float32"](run)
    source = "The small cat is sleeping now."
    anew = translator.translate([source], prefixes=["Kü"])[0].text
    assert translator.complete(source).suggest("Kü").text == anew


@pytest.mark.parametrize("name", ["float32", "torch"])
def test_a_correction_longer_than_the_learned_positions_hinders_nothing(tmp_path: Path, name: str) -> None:
    run = translator_run(tmp_path / "run", positions="learned", max_positions=40)
    source = "The small cat is sleeping."
    # the same words over and over are as near as once
    Corrections(run).add(" ".join([source] * 9), "Küçük kedi uyuyor.")
    translator = ENGINES[name](run)
    translator.corrections = Corrections(run)
    texts = [source.replace("sleeping", "running")]
    too_long = translator.translate(texts)
    plain = ENGINES[name](run)
    plain.corrections = None
    assert too_long == plain.translate(texts)
    # of a long translation as much is read as the model could write
    Corrections(run).add(source, " ".join(["Küçük kedi uyuyor."] * 9))
    (near,) = translator.neighbours(texts) or [None]
    assert near is None
    translator.line_translator(BeamOptions(), translator.notes, translator.decoded)
    (near,) = translator.neighbours(texts)
    assert near is not None
    assert len(near.tokens) == 40
    translator.translate(texts)


def test_near_is_the_dice_coefficient_of_the_words() -> None:
    pairs = [(f"the red house number {number} is sold", f"ev {number}") for number in range(12)]
    index = NearIndex([*pairs, ("a cat", "kedi"), ("", "boş")])
    near = index.near("The red house is old.")
    # four of five words shared with one of seven
    assert [each.similarity for each in near] == pytest.approx([2 * 4 / 12] * MAX_NEAR)
    assert [each.source for each in near] == [pair[0] for pair in pairs[::-1][:MAX_NEAR]]
    assert index.near("A cat!")[0].similarity == 1
    assert index.near("nothing alike") == []
    assert index.near("") == []
    # one of two words shared with one of three is 2 / 5; one of four no more
    assert index.near("a dog sleeps")[0].similarity == pytest.approx(MIN_SIMILARITY)
    assert index.near("a dog sleeps well") == []


def test_placeholders_of_corrections_are_read_as_those_of_lines(run: Path) -> None:
    Corrections(run).add("Write {name} a letter.", "{name} için mektup yaz.")
    translator = ENGINES["float32"](run)
    text = translator.translate(["Write {user} a letter now."])[0].text
    assert text.count("{user}") == 1
    assert "{name}" not in text
