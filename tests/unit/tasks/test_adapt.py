"""A translator begins with another: the same ids and weights, and old pairs among the new."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.tasks.conftest import SENTENCES, TRANSLATIONS

from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.translation.adapt import Base, adaptation_lines
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat.tasks.translation.train import TranslatorJob
from dikkat_runtime.errors import MissingInputError, UsageError

WORDS = ("gearbox", "clutch", "gasket", "bolt", "spring", "valve", "pump", "hose", "belt", "filter")
SETTINGS = {"data": {"validation_pairs": 8, "test_pairs": 0}}


class Row(list[int]):
    """Ids of which it can be seen whether they are still in memory."""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Sixty pairs of words that the base has never read."""
    verbs = ("open", "shut", "wash", "turn", "oil", "fix")
    rows = [f"{verb} the {word} .\t{word} {verb} !" for word in WORDS for verb in verbs]
    path = tmp_path / "memory.tsv"
    path.write_text("source\ttarget\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def prepared(memory: Path, untrained: Path, out: Path) -> RunDirectory:
    run = RunDirectory.create(out)
    prepare(TrainRequest([str(memory)], settings=SETTINGS, start=untrained), run)
    return run


def test_vocabulary_model_and_weights_are_those_of_the_base(memory: Path, untrained: Path, tmp_path: Path) -> None:
    run, base = prepared(memory, untrained, tmp_path / "run"), RunDirectory.open(untrained)
    assert run.tokenizer.read_bytes() == base.tokenizer.read_bytes()
    assert run.read_config()["model"] == base.read_config()["model"]
    task = TranslatorJob(TrainRequest([str(memory)], start=untrained)).task(
        run, run_config(run.read_config(), "config.json")
    )
    theirs = base.load_weights()
    for name, parameter in task.model.named_parameters():
        assert torch.equal(parameter.detach(), theirs[name]), name


def test_pairs_of_the_base_are_among_those_to_train_on(memory: Path, untrained: Path, tmp_path: Path) -> None:
    run = prepared(memory, untrained, tmp_path / "run")
    size = run.read_config()["model"]["vocab_size"]
    corpus, old = (Corpus.open(item.corpus, "train", vocab_size=size) for item in (run, RunDirectory.open(untrained)))
    pairs = {(corpus.source(i).tobytes(), corpus.target(i).tobytes()) for i in range(len(corpus))}
    known = {(old.source(i).tobytes(), old.target(i).tobytes()) for i in range(len(old))}
    assert known <= pairs
    source = run.read_config()["data_source"]
    assert source["adapted"]["old_pairs"] == len(old) == len(SENTENCES)
    assert source["train_pairs"] == len(corpus) - source["copies"] > len(old)
    assert source["adapted"]["chrf_before"].keys() == {"new"}, "the base has no validation part"


def test_old_pairs_are_written_one_by_one(
    memory: Path, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, most = list[weakref.ref[Row]](), [0]

    def sample(base: Base, count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
        for number in range(count):
            row = Row([5, number % 7 + 5])
            rows.append(weakref.ref(row))
            most[0] = max(most[0], sum(each() is not None for each in rows))
            yield row, [6]

    monkeypatch.setattr(Base, "sample", sample)
    adapted = prepared(memory, untrained, tmp_path / "run").read_config()["data_source"]["adapted"]
    assert adapted["old_pairs"] == len(rows) > 50
    assert most[0] <= 3


def test_few_old_pairs_are_drawn_of_many(untrained: Path) -> None:
    base = Base.open(untrained, {}, "settings")
    some = list(base.sample(2, seed=1))
    assert len(some) == 2
    assert some == list(base.sample(2, seed=1))
    everything = [tuple(map(tuple, pair)) for pair in base.sample(100, seed=1)]
    assert len(set(everything)) == len(SENTENCES) == len(TRANSLATIONS)
    drawn = {tuple(map(tuple, next(base.sample(1, seed=seed)))) for seed in range(30)}
    assert len(drawn) > 2, "which are drawn depends on the seed"
    assert np.isin([len(source) for source, _ in some], [len(pair[0]) for pair in everything]).all()


def test_what_cannot_begin_with_it_is_refused(memory: Path, untrained: Path, tmp_path: Path) -> None:
    def request(**others: object) -> TrainRequest:
        return TrainRequest([str(memory)], start=untrained, **others)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="leave out --preset"):
        prepare(request(preset="tiny"), RunDirectory.create(tmp_path / "a"))
    with pytest.raises(UsageError, match=r"model\.model_dim is decided by .*untrained"):
        prepare(request(settings={"model": {"model_dim": 64}}), RunDirectory.create(tmp_path / "b"))
    named = memory.rename(memory.with_name("memory.en-fr.tsv"))
    with pytest.raises(UsageError, match=r"its target is in fr, but .* translates from en to tr; give"):
        prepare(TrainRequest([str(named)], start=untrained), RunDirectory.create(tmp_path / "c"))
    named.rename(memory)
    with pytest.raises(UsageError, match=r"data\.target_language is decided by .*untrained"):
        prepare(request(settings={"data": {"target_language": "fr"}}), RunDirectory.create(tmp_path / "d"))
    with pytest.raises(MissingInputError, match="no weights yet"):
        Base.open(prepared(memory, untrained, tmp_path / "run").path, {}, "settings")


def test_a_base_that_is_gone_is_told_of(memory: Path, untrained: Path, tmp_path: Path) -> None:
    adapted = {"run": str(tmp_path / "gone"), "old_pairs": 3, "chrf_before": {"old": 50.0}}
    run = prepared(memory, untrained, tmp_path / "run")
    run.save_weights(RunDirectory.open(untrained).load_weights(), {"step": "0"})
    last = adaptation_lines(run, adapted)[-1]
    assert last.endswith("gone: 50.00 before, not measured afterwards, since it no longer exists")
