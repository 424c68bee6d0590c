"""Native decoding in eight bits: keys and values are bfloat16, and stay where they are when rows change places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from tests.unit.native.test_decoder import (
    WIDTHS,
    Rows,
    applied,
    assert_company_changes_nothing,
    formula,
    some_weights,
)
from tests.unit.native.test_quantized import byte_product
from torch import Tensor

from dikkat.native import library
from dikkat.native.decoder import DecoderSteps, DecoderWeights
from dikkat.native.layers import LinearWeights
from dikkat.native.quantized import pack

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def in_bytes(weights: DecoderWeights) -> DecoderWeights:
    def packed(each: LinearWeights) -> LinearWeights:
        return replace(each, packed=pack(each.weight))

    return replace(weights, linears=tuple(map(packed, weights.linears)), sources=tuple(map(packed, weights.sources)))


def in_bfloat16(x: Tensor) -> Tensor:
    return x.float().bfloat16().double()


def distance(found: Tensor, other: Tensor) -> float:
    return float((found.double() - other).square().mean().sqrt())


@pytest.mark.parametrize("post_norm", [False, True])
@pytest.mark.parametrize("widths", ["round", "odd", "wide heads"])
def test_steps_are_the_formula_on_rounded_numbers(widths: str, post_norm: bool) -> None:
    """Ten times as close as that is to the one on whole numbers; 35 positions, so that the cache grows."""
    rows = Rows(in_bytes(some_weights(widths, layers=1, post_norm=post_norm)), [9, 4, 0], rows=2)
    choose, found, exact, whole = random.Random(1), [], [], []
    for _ in range(35):
        found.append(rows.step())
        given = [
            (rows.weights, row, rows.places, rows.memory[owner], rows.mask[owner])
            for row, owner in zip(rows.written, rows.owners, strict=True)
        ]
        exact.append(torch.stack([formula(*each, product=byte_product, kept=in_bfloat16)[-1] for each in given]))
        whole.append(torch.stack([formula(*each)[-1] for each in given]))
        rows.reorder(choose)
    lost = distance(torch.stack(whole), torch.stack(exact))
    assert lost > 1e-3
    assert distance(torch.stack(found), torch.stack(exact)) < 0.1 * lost


@pytest.mark.parametrize("widths", WIDTHS)
def test_what_is_held_is_handed_over_in_the_order_of_the_rows(widths: str) -> None:
    """Keys and values of the first layer under post-norm are a projection of what is fed in, rounded to bfloat16."""
    weights = in_bytes(some_weights(widths, layers=1, post_norm=True))
    rows, choose = Rows(weights, [9, 4, 6], rows=3), random.Random(1)
    for place in range(40):
        rows.step()
        rows.reorder(choose)
        if place == 20:
            rows.drop(choose)
    key, value = rows.steps.keys_and_values()[0]
    heads, width = weights.num_heads, weights.head_dim
    fed = weights.embedding[torch.tensor(rows.written)] * weights.embedding_scale + rows.places[:40]
    # (R, T, 3 * H * K) -> 3 x (R, H, T, K)
    parts = byte_product(weights.linears[0], fed.double()).unflatten(2, (3, heads, width)).permute(2, 0, 3, 1, 4)
    for held, part in ((key, parts[1]), (value, parts[2])):
        assert held.dtype == torch.float32
        assert torch.equal(held, held.bfloat16().float())
        # half a step of the last place, and where float32 and float64 round an entry to neighbouring integers
        far = (held - part).abs() > part.abs() * 2**-8 + 1e-5
        assert float(far.double().mean()) < 0.05
    assert not torch.equal(applied(weights.linears[0], fed.double()).float(), parts.float())


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_changed_places_is_the_row_that_never_did(seed: int) -> None:
    """To the bit: as if its tokens had been fed to it alone from the beginning."""
    choose, widths = random.Random(seed), ["round", "odd", "tiny", "wide heads"][seed]
    rows = Rows(in_bytes(some_weights(widths, post_norm=seed % 2 == 0)), [9, 2, 5, 1], rows=choose.choice([2, 3, 5]))
    for place in range(40):
        found = rows.step()
        if place in (1, 7, 38, 39):
            for row, owner, logits in zip(rows.written, rows.owners, found, strict=True):
                memory, mask = rows.memory[owner : owner + 1], rows.mask[owner : owner + 1]
                alone = DecoderSteps(rows.weights, memory, mask, 1)
                steps = [alone.step(torch.tensor([token]), rows.places[at]) for at, token in enumerate(row)]
                assert torch.equal(steps[-1][0], logits)
        rows.reorder(choose)
        if len(set(rows.owners)) > 2 and choose.random() < 0.1:
            rows.drop(choose)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("widths", ["round", "odd"])
def test_a_row_has_the_same_bits_alone_in_company_with_padding_and_on_two_threads(widths: str) -> None:
    assert_company_changes_nothing(in_bytes(some_weights(widths, gelu=True)))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_number_that_is_none_is_not_hidden(poison: float) -> None:
    weights = in_bytes(some_weights())
    weights.embedding[3, 5] = poison
    rows = Rows(weights, [5, 5], rows=1)
    found = rows.steps.step(torch.tensor([3, 4]), rows.places[0])
    assert found[0].isnan().all()
    assert found[1].isfinite().all()


def test_a_gap_in_the_mask_is_not_attended_to() -> None:
    """As if the source did not have it."""
    rows = Rows(in_bytes(some_weights(layers=1)), [20], rows=1, size=20)
    rows.mask[0, [0, 7, 16]] = False
    found = DecoderSteps(rows.weights, rows.memory, rows.mask, 1).step(torch.tensor([1]), rows.places[0])
    memory = rows.memory[:, rows.mask[0]]
    without = DecoderSteps(rows.weights, memory, torch.ones(1, 17, dtype=torch.bool), 1)
    expected = without.step(torch.tensor([1]), rows.places[0])
    torch.testing.assert_close(found, expected, rtol=0, atol=0.01 * float(expected.abs().max()))
