"""Groups that are looked up on disk: the same pairs are held out as by joining all pairs that share a side."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.config import DataConfig
from dikkat.data import splitting
from dikkat.data.pairs import Pair
from dikkat.data.splitting import HeldOut, hold_out_pairs, split_pairs
from dikkat_runtime.errors import DataError


def name(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


def outcome(pairs: list[Pair], config: DataConfig, seed: int, *, joined: bool) -> HeldOut | str:
    try:
        return (split_pairs if joined else hold_out_pairs)(pairs, config, seed)
    except DataError as error:
        return str(error)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 400), st.integers(1, 400), st.integers(1, 400), st.integers(1, 30), st.integers(0, 30),
    st.integers(0, 2**32),
)  # fmt: skip
def test_the_same_pairs_as_by_joining_all(
    size: int, sources: int, targets: int, validation: int, test: int, seed: int
) -> None:
    dice = random.Random(seed)
    pairs = [Pair(name(dice.randrange(sources)), name(dice.randrange(targets)), line) for line in range(size)]
    config = DataConfig(validation_pairs=validation, test_pairs=test)
    assert outcome(pairs, config, seed, joined=False) == outcome(pairs, config, seed, joined=True)


def test_a_common_answer_does_not_join_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the sources has one target, and one source has a tenth of the targets: both groups train."""
    pairs = [
        Pair(name(7 if line % 10 == 0 else line), name(9 if line % 10 == 1 else line + 10_000), line)
        for line in range(6_000)
    ]
    config = DataConfig(validation_pairs=100, test_pairs=50)
    joined = outcome(pairs, config, 3, joined=True)

    def refuse(*arguments: object) -> None:
        raise AssertionError("all pairs were joined in memory")

    monkeypatch.setattr(splitting, "split_pairs", refuse)
    held_out = outcome(pairs, config, 3, joined=False)
    assert held_out == joined
    assert isinstance(held_out, HeldOut)
    assert (len(held_out.validation), len(held_out.test)) == (100, 50)
    assert not any(pairs[index].line % 10 < 2 for part in held_out for index in part)


def test_a_group_is_passed_over_wherever_it_is_met_again() -> None:
    """A chain, in which each pair shares a side with the next, is longer than a part; each of its keys leads to it."""
    chain = [Pair(name(number // 2), name(5_000 + (number + 1) // 2), number) for number in range(3_000)]
    others = [Pair(name(9_000 + number), name(20_000 + number), number) for number in range(300)]
    pairs = [*chain, *others]
    config = DataConfig(validation_pairs=120, test_pairs=120)
    held_out = outcome(pairs, config, 1, joined=False)
    assert held_out == outcome(pairs, config, 1, joined=True)
    assert isinstance(held_out, HeldOut)
    assert all(index >= 3_000 for part in held_out for index in part)
