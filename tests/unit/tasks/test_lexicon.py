"""The lexicon against IBM model 1 by nested loops, what it says of unknown words, and damaged files."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.runs import translator_run

from dikkat.data.corpus import Corpus
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks import lexicon as module
from dikkat_runtime.tasks.confidence import FILE, Calibration
from dikkat_runtime.tasks.confidence_fitting import training_pairs
from dikkat_runtime.tasks.lexicon import Lexicon
from dikkat_runtime.tasks.translator import Translator

PAIRS = [
    ("The dog sleeps.", "Der Hund schläft."),
    ("The cat sleeps.", "Die Katze schläft."),
    ("A dog runs.", "Ein Hund läuft."),
    ("A cat.", "Eine Katze."),
    ("The dog, the dog.", "Der Hund, der Hund."),
    ("", "Nichts"),
]


def model_1(pairs: list[tuple[list[str], list[str]]], rounds: int) -> dict[tuple[str, str], float]:
    """p(target word | source word), without an empty word (Brown et al. 1993, equation 17)."""
    p = defaultdict[tuple[str, str], float](lambda: 1.0)
    for _ in range(rounds):
        counts, totals = defaultdict[tuple[str, str], float](float), defaultdict[str, float](float)
        for source, target in pairs:
            for other in target:
                total = sum(p[own, other] for own in source)
                for own in source:
                    counts[own, other] += p[own, other] / total
                    totals[own] += p[own, other] / total
        p = defaultdict(float, {link: count / totals[link[0]] for link, count in counts.items()})
    return p


def test_links_are_those_of_model_1_in_both_directions() -> None:
    lexicon = Lexicon.fit(PAIRS)
    sides = [[sorted(set(module.words(text))) for text in column] for column in zip(*PAIRS, strict=True)]
    forward = model_1(list(zip(*sides, strict=True)), 5)
    backward = model_1(list(zip(sides[1], sides[0], strict=True)), 5)
    links = {(own, other): values for own, known in lexicon.links.items() for other, values in known.items()}
    expected = {
        (own, other): (round(1000 * p), round(1000 * backward[other, own]))
        for (own, other), p in forward.items()
        if max(p, backward[other, own]) > 0.05
    }
    assert links.keys() == expected.keys()
    for link, values in links.items():
        np.testing.assert_allclose(values, expected[link], atol=1)
    assert Lexicon.fit([]) == Lexicon.fit([("", "a")]) == Lexicon({})


def test_words_are_compared_as_they_are_linked() -> None:
    lexicon = Lexicon(
        {"dog": {"hund": (800, 700)}, "the": {"der": (400, 300), "die": (300, 900)}, "is": {"is": (0, 90)}}
    )
    links = lexicon.compare("The DOG 25 Ann is it", "Die Hund Ann 25 der is")
    # numbers, and names that nobody has translated, are translated by themselves
    assert (links.source, links.target) == ([900, 700, 1000, 1000, 90, 0], [300, 800, 1000, 1000, 400, 0])
    assert links.target_spans == [(0, 3), (4, 8), (9, 12), (13, 15), (16, 19), (20, 22)]
    assert [len(side) for side in (lexicon.compare("", "a").source, lexicon.compare("", "a").target)] == [0, 1]


def test_of_very_many_pairs_the_first_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lexicon.fit(PAIRS[:2])
    monkeypatch.setattr(module, "_MAX_CELLS", 20)
    assert Lexicon.fit(PAIRS) == first


def test_the_lexicon_is_learned_from_the_corpus_of_the_run(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run")
    translator = Translator.load(run, threads=1)
    tokenizers = (translator.tokenizer, translator.target_tokenizer)
    assert list(training_pairs(run, tokenizers)) == []
    ids = [(tokenizers[0].encode(source), tokenizers[1].encode(target)) for source, target in PAIRS[:4]]
    (run / "corpus").mkdir()
    Corpus.build(run / "corpus", "train", ids)
    expected = [tuple(tokenizer.decode(row) for tokenizer, row in zip(tokenizers, pair, strict=True)) for pair in ids]
    assert sorted(training_pairs(run, tokenizers)) == sorted(expected)
    (run / "corpus" / "train.ids.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match="corpus"):
        list(training_pairs(run, tokenizers))


@pytest.mark.parametrize(
    "change",
    [None, [], {"a": None}, {"a": [1, 2]}, {"a": {"b": [1]}}, {"a": {"b": [1, 1001]}}, {"a": {"b": [-1, 1]}},
     {"a": {"b": [1, 0.5]}}, {"a": {"b": ["1", "2"]}}],
)  # fmt: skip
def test_a_damaged_lexicon_is_refused(tmp_path: Path, change: object) -> None:
    run = translator_run(tmp_path / "run")
    (run / "held_out").mkdir()
    for side in ("source", "target"):
        (run / "held_out" / f"validation.{side}.txt").write_text("A dog.\n" * 24, encoding="utf-8")
    Translator.load(run, threads=1).judge(run)
    calibration = Calibration.read(run)
    assert calibration is not None
    content = json.loads((run / FILE).read_text(encoding="utf-8"))
    content["lexicon"] = change
    (run / FILE).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=r"confidence\.json: damaged"):
        Calibration.read(run)
