"""Which sentences share a batch: every one is in one, within the limits; workers have like shares."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.decoding.batching import length_batches

SIZES = st.integers(1, 200)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    lengths=st.lists(st.integers(0, 60), max_size=300),
    batch_size=SIZES,
    batch_tokens=st.integers(1, 3000),
    workers=st.integers(1, 5),
)
def test_every_sentence_is_in_one_batch_within_the_limits(
    lengths: list[int], batch_size: int, batch_tokens: int, workers: int
) -> None:
    batches = list(length_batches(lengths, batch_size, batch_tokens, workers=workers))
    assert sorted(place for batch in batches for place in batch) == [
        place for place, length in enumerate(lengths) if length
    ]
    for batch in batches:
        width = 1 + max(lengths[place] for place in batch)
        assert len(batch) == 1 or (len(batch) <= batch_size and len(batch) * width <= batch_tokens)
    in_order = [lengths[place] for batch in batches for place in batch]
    assert in_order == sorted(in_order, reverse=True)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_each_worker_has_as_many_batches_that_take_as_long(workers: int) -> None:
    """So the batch with the shortest sentences has the most."""
    lengths = [5 + place % 36 for place in range(1000)]
    batches = list(length_batches(lengths, 1024, 100_000, workers=workers))
    assert len(batches) == workers
    costs = [sum((1 + lengths[place]) ** 1.5 for place in batch) for batch in batches]
    assert max(costs) <= 1.05 * min(costs)
    # where limits forbid that there are no more batches for it
    sizes = [len(batch) for batch in length_batches(lengths, 256, 100_000, workers=workers)]
    assert len(sizes) == 4 + -4 % workers
    assert sizes == sorted(sizes)


def test_a_few_sentences_are_not_shared_out() -> None:
    assert [len(batch) for batch in length_batches([5] * 63, 128, 8192, workers=2)] == [63]
    assert [len(batch) for batch in length_batches([5] * 64, 128, 8192, workers=2)] == [32, 32]


def test_one_worker_fills_each_batch() -> None:
    assert [len(batch) for batch in length_batches([5] * 300, 128, 8192)] == [128, 128, 44]
