"""Indices that are outside of what they point into are an error of one line, and never read with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dikkat.kernels import library
from dikkat.kernels.attention import AttentionInputs, attention_backward, attention_forward
from dikkat.kernels.cross_entropy import SampledGradient, sampled_softmax, smoothed_softmax
from dikkat.kernels.int8_products import pack, packed_product
from dikkat.kernels.rotary import rotate

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")

WRONG_INDICES = [-1, 23, -(2**63), 2**62]
"""Of a vocabulary of 23."""


@pytest.mark.parametrize("wrong", WRONG_INDICES)
def test_a_target_outside_the_vocabulary(wrong: int) -> None:
    logits, targets = torch.randn(5, 23), torch.tensor([0, 22, wrong, 3, 4])
    before = logits.clone()
    with pytest.raises(IndexError, match="a target must lie between 0 and 22"):
        smoothed_softmax(logits, targets, 0.1)
    assert torch.equal(logits, before)
    with pytest.raises(IndexError, match="a target must lie between 0 and 22"):
        sampled_softmax(logits, targets, 0.1, torch.rand(5))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "targets",
    [torch.zeros(5, dtype=torch.int32), torch.zeros(4, dtype=torch.int64), torch.zeros(10, dtype=torch.int64)[::2]],
    ids=["32 bits", "too few", "not dense"],
)
def test_targets_of_another_form(targets: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="targets must"):
        smoothed_softmax(torch.randn(5, 23), targets, 0.1)
    with pytest.raises(ValueError, match="targets must"):
        sampled_softmax(torch.randn(5, 23), targets, 0.1, torch.rand(5))


@pytest.mark.parametrize("wrong", [-1, 23, -(2**31), 2**31 - 1])
def test_a_drawn_entry_outside_the_vocabulary(wrong: int) -> None:
    *_, sampled = sampled_softmax(torch.randn(5, 23), torch.arange(5), 0.1, torch.rand(5))
    assert isinstance(sampled, SampledGradient)
    entries, counts = sampled.entries.clone(), sampled.counts.clone()
    entries[3, 0], counts[2] = wrong, wrong if wrong != 23 else 2**20
    for spoiled in (replace(sampled, entries=entries), replace(sampled, counts=counts)):
        with pytest.raises(IndexError, match="a sampled entry must lie between 0 and 22"):
            spoiled.times(torch.randn(23, 16), torch.zeros(16))
        with pytest.raises(IndexError, match="a sampled entry must lie between 0 and 22"):
            spoiled.add_transposed_times(torch.randn(5, 16), torch.zeros(23, 16))


@pytest.mark.parametrize("wrong", [-1, 7, 2**62])
def test_a_position_outside_the_table(wrong: int) -> None:
    x, table, position_ids = torch.randn(2, 3, 5, 8), torch.randn(2, 7, 4), torch.zeros(2, 5, dtype=torch.int64)
    position_ids[1, 4] = wrong
    with pytest.raises(IndexError, match="a position must lie between 0 and 6"):
        rotate(x, table, position_ids, back=False)
    rest = None, 0.3, None, 0, table, position_ids
    with pytest.raises(IndexError, match="a position must lie between 0 and 6"):
        attention_forward(AttentionInputs(x, x, x, *rest), keep_weights=True)
    with pytest.raises(IndexError, match="a position must lie between 0 and 6"):
        attention_backward(x, AttentionInputs(x, x, x, None, *rest[1:]), None)


def test_a_table_that_is_too_short_or_of_another_width() -> None:
    x = torch.randn(2, 3, 5, 8)
    with pytest.raises(IndexError, match="a position must lie between 0 and 3"):
        rotate(x, torch.randn(2, 4, 4), None, back=False)
    with pytest.raises(IndexError, match="a table without positions"):
        rotate(x, torch.randn(2, 0, 4), None, back=False)
    with pytest.raises(ValueError, match="cannot turn heads of width 8"):
        rotate(x, torch.randn(2, 7, 3), None, back=False)
    with pytest.raises(ValueError, match="5 queries and 4 keys cannot have the same positions"):
        attention_forward(
            AttentionInputs(x, x[:, :, 1:], x[:, :, 1:], None, 0.3, None, 0, torch.randn(2, 7, 4)), keep_weights=False
        )


def test_packed_weights_of_another_size() -> None:
    packed = pack(torch.randn(70, 33))
    for x, out in ((torch.randn(3, 33), torch.empty(3, 200)), (torch.randn(3, 200), torch.empty(3, 70))):
        with pytest.raises(ValueError, match="packed weights do not turn"):
            packed_product(x, packed, out)


def test_nothing_to_attend_to_gives_zeros_and_nothing_to_ask_gives_nothing() -> None:
    """Sizes of zero were divided by, which ends the process."""
    query, nothing = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 0, 8)
    output, _ = attention_forward(AttentionInputs(query, nothing, nothing, None, 0.3, None, 0), keep_weights=False)
    assert torch.equal(output, torch.zeros(2, 3, 5, 8))
    output, weights = attention_forward(AttentionInputs(nothing, query, query, None, 0.3, None, 0), keep_weights=True)
    assert output.shape == (2, 3, 0, 8)
    of_nothing = attention_backward(output, AttentionInputs(nothing, query, query, None, 0.3, None, 0), weights)
    assert [part.shape[2] for part in of_nothing] == [0, 5, 5]
    of_query = attention_backward(query, AttentionInputs(query, nothing, nothing, None, 0.3, None, 0), None)
    assert [part.shape[2] for part in of_query] == [5, 0, 0]
    assert not any(part.any() for part in (*of_nothing, *of_query))
