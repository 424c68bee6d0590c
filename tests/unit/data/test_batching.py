"""Batching: padded as defined, within the limit, little padding, and an order that is arithmetic."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dikkat.data.batching as module
from dikkat.config import TokenizerConfig
from dikkat.data.batching import BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.data.disk_arrays import Records, sorted_records
from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.tokenizer import Tokenizer

MULTI30K = Path(__file__).parents[4] / "shared/data/multi30k"
LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60)
SEQUENCE = st.lists(st.integers(4, 99), max_size=7)


def random_lengths(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentence lengths as in captions: log-normal around 13, the target about as long as the source."""
    generator = np.random.default_rng(seed)
    source = np.maximum(1, generator.lognormal(2.55, 0.35, count).astype(np.int64))
    target = np.maximum(1, (source * generator.lognormal(0.05, 0.18, count)).astype(np.int64))
    return source, target


@pytest.mark.seed("F40")
@settings(max_examples=30)
@given(st.lists(st.tuples(SEQUENCE, SEQUENCE), min_size=1, max_size=8))
def test_every_row_keeps_its_eos(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int]]]
) -> None:
    corpus = Corpus.build(tmp_path_factory.mktemp("corpus"), "train", pairs)
    indices = np.arange(len(pairs))[::-1]
    batch = collate(corpus, indices)
    longest = [max(len(pair[side]) for pair in pairs) + 1 for side in (0, 1)]
    chosen = [pairs[i] for i in indices]
    assert batch.source.tolist() == [s + [2] + [0] * (longest[0] - len(s) - 1) for s, _ in chosen]
    assert batch.target_input.tolist() == [[1, *t] + [0] * (longest[1] - len(t) - 1) for _, t in chosen]
    assert batch.target_output.tolist() == [[*t, 2] + [0] * (longest[1] - len(t) - 1) for _, t in chosen]
    assert batch.source.dtype == batch.target_input.dtype == batch.target_output.dtype == np.int64
    assert batch.num_tokens == sum(len(target) + 1 for _, target in pairs)
    assert batch.indices.tolist() == indices.tolist()


@settings(max_examples=30)
@given(st.lists(st.tuples(SEQUENCE, SEQUENCE), min_size=1, max_size=8))
def test_backwards_is_the_batch_of_the_pairs_turned_round(pairs: list[tuple[list[int], list[int]]]) -> None:
    indices = np.arange(len(pairs))
    result = collate(Corpus.in_memory(pairs), indices).backwards()
    wanted = collate(Corpus.in_memory([(target, source) for source, target in pairs]), indices)
    for name in ("source", "target_input", "target_output", "indices"):
        assert np.array_equal(getattr(result, name), getattr(wanted, name))


@settings(max_examples=30)
@given(st.lists(st.tuples(SEQUENCE, SEQUENCE), min_size=1, max_size=8))
def test_sources_without_an_end_mark_have_none_in_either_direction(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate(Corpus.in_memory(pairs), np.arange(len(pairs)), add_source_eos=False)
    longest = [max(len(pair[side]) for pair in pairs) for side in (0, 1)]
    assert batch.source.tolist() == [s + [0] * (longest[0] - len(s)) for s, _ in pairs]
    assert batch.target_output.tolist() == [[*t, 2] + [0] * (longest[1] - len(t)) for _, t in pairs]
    back = batch.backwards()
    assert back.source.tolist() == [t + [0] * (longest[1] - len(t)) for _, t in pairs]
    assert back.target_input.tolist() == [[1, *s] + [0] * (longest[0] - len(s)) for s, _ in pairs]
    assert back.target_output.tolist() == [[*s, 2] + [0] * (longest[0] - len(s)) for s, _ in pairs]


def test_a_batch_counts_no_end_mark_that_is_not_there() -> None:
    plan = BatchPlan(np.array([2, 4]), np.array([1, 1]), 1000, 0, add_source_eos=False)
    assert plan.padding_share([np.array([0, 1])]) == (1 - 6 / 8, 0.0)


@settings(max_examples=40)
@given(LENGTHS, st.integers(1, 300), st.integers(-5, 2**70), st.integers(0, 3))
def test_every_pair_once_and_within_the_limit(
    lengths: list[tuple[int, int]], limit: int, seed: int, epoch: int
) -> None:
    source, target = np.array(lengths, np.int64).T
    batches = list(BatchPlan(source, target, limit, seed).epoch(epoch))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * (max(source[batch].max(), target[batch].max()) + 1)
        assert padded <= limit or len(batch) == 1


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    source, target = random_lengths(500, 0)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in BatchPlan(source, target, 256, seed).epoch(epoch)]

    used = BatchPlan(source, target, 256, 1)
    used.epoch(0)
    used.at(3)
    assert [batch.tolist() for batch in used.epoch(2)] == order(1, 2)
    different = {str(order(seed, epoch)) for seed in (1, 2, -1) for epoch in (0, 1, 2)}
    assert len(different) == 9
    # Not only the batches are shuffled: pairs of equal length meet others.
    assert {tuple(sorted(batch)) for batch in order(1, 0)} != {tuple(sorted(batch)) for batch in order(1, 1)}


def test_the_position_is_all_the_state() -> None:
    source, target = random_lengths(300, 1)
    plan = BatchPlan(source, target, 200, 5)
    stream = [(epoch, batch.tolist()) for epoch in range(3) for batch in plan.epoch(epoch)]
    assert len(stream) == 3 * plan.batches_per_epoch
    for position in (0, 1, plan.batches_per_epoch - 1, plan.batches_per_epoch, len(stream) - 1):
        resumed = BatchPlan(source, target, 200, 5)
        epoch, batch = resumed.at(position)
        assert (epoch, batch.tolist()) == stream[position]


def test_an_update_across_epochs_sorts_each_epoch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = random_lengths(300, 1)
    plan = BatchPlan(source, target, 200, 5)
    stream = [batch.tolist() for epoch in range(4) for batch in BatchPlan(source, target, 200, 5).epoch(epoch)]
    sorts = [0]

    def counted(*arguments: Any) -> Iterator[Records]:
        sorts[0] += 1
        return sorted_records(*arguments)

    monkeypatch.setattr(module, "sorted_records", counted)
    # updates of two batches, each cut into three parts, of which the second batch of some is in the next epoch
    positions = [position for first in range(1, len(stream) - 1, 2) for position in (first, first + 1) * 3]
    assert [plan.at(position)[1].tolist() for position in positions] == [stream[position] for position in positions]
    assert sorts == [4]
    assert any(plan.at(first)[0] != plan.at(first + 1)[0] for first in range(1, len(stream) - 1, 2))


def test_a_pair_longer_than_the_limit_is_a_batch_of_its_own() -> None:
    plan = BatchPlan(np.array([3, 500, 3]), np.array([3, 2, 4]), 16, 0)
    assert sorted(sorted(batch.tolist()) for batch in plan.epoch(0)) == [[0, 2], [1]]


def test_padding_share_counts_entries() -> None:
    plan = BatchPlan(np.array([2, 4, 9]), np.array([5, 5, 1]), 1000, 0)
    source, target = plan.padding_share([np.array([0, 1]), np.array([2])])
    # rows of 3 and 5 in width 5, 10 in width 10; 6 and 6 in width 6, 2 in width 2
    assert source == pytest.approx(2 / 20)
    assert target == 0.0


@pytest.mark.parametrize(("count", "limit"), [(29_000, 4096), (29_000, 2048), (600, 640)])
def test_little_padding_on_sentences(count: int, limit: int) -> None:
    plan = BatchPlan(*random_lengths(count, 2), limit, 1)
    source, target = plan.padding_share(plan.epoch(0))
    assert 0.0 < max(source, target) <= 0.12


def test_padding_on_multi30k_is_at_most_12_percent() -> None:
    if not MULTI30K.is_dir():
        pytest.skip(f"{MULTI30K} is not here")
    texts = [
        gzip.decompress((MULTI30K / f"train.{side}.gz").read_bytes()).decode().split("\n")[:-1:3]
        for side in ("en", "de")
    ]
    tokenizer = Tokenizer.train(texts[0] + texts[1], TokenizerConfig())
    source, target = (np.array([len(ids) for ids in tokenizer.encode_batch(side)]) for side in texts)
    plan = BatchPlan(source, target, 4096, 1)
    assert max(plan.padding_share(plan.epoch(0))) <= 0.12


def test_no_pairs_at_all() -> None:
    with pytest.raises(UsageError, match="there is no pair to make batches of"):
        BatchPlan(np.array([], np.int64), np.array([], np.int64), 100, 0)
