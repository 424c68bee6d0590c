"""The learned task: what each path length allows, small and from a seed."""

from __future__ import annotations

import pytest
import torch

from dikkat.lessons.comparison.layers import Kind
from dikkat.lessons.comparison.measurement import CHANCE, TESTED, Copied, copy_first, copy_over

# four standard deviations of a share of TESTED tries at chance
AT_CHANCE = CHANCE + 4 * (CHANCE * (1 - CHANCE) / TESTED) ** 0.5


def learned(kind: Kind, length: int, *, kernel: int = 3) -> Copied:
    return copy_first(kind, length, 24, kernel=kernel, updates=200, seed=0)


@pytest.mark.seed("C2")
@pytest.mark.parametrize("length", [3, 8, 24])
def test_attention_copies_at_any_length(length: int) -> None:
    assert learned("self-attention", length).accuracy >= 0.95


@pytest.mark.seed("C2")
def test_a_convolution_copies_inside_its_field_only() -> None:
    assert learned("convolution", 3).accuracy >= 0.95
    assert learned("convolution", 4).accuracy <= AT_CHANCE
    assert learned("convolution", 8, kernel=8).accuracy >= 0.95


@pytest.mark.seed("C2")
def test_a_recurrence_forgets() -> None:
    assert learned("recurrence", 8).accuracy >= 0.95
    assert learned("recurrence", 40).accuracy <= 0.3


def test_a_seed_repeats_itself_and_disturbs_nobody() -> None:
    heard: list[str] = []
    state = torch.random.get_rng_state()
    runs = [copy_over([4, 5], 8, kernel=3, updates=20, seed=seed, watch=heard.append) for seed in (7, 7, 8)]
    first, second, other = ([(item.kind, item.length, item.accuracy) for item in run] for run in runs)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first == second != other
    assert [index[:2] for index in first][:3] == [("convolution", 4), ("recurrence", 4), ("self-attention", 4)]
    assert heard[0] == "training convolution to copy the first of 4 tokens"
