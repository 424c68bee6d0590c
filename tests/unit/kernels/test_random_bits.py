"""The generator of dropout: its published numbers, both paths, and what a draw depends on."""

from __future__ import annotations

import pytest
import torch

from dikkat import kernels
from dikkat.kernels.library import library, why_absent
from dikkat.kernels.random_bits import bits_of_seed, random_bits, random_seed, splitmix64, uniform_numbers

needs_kernels = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")

PUBLISHED = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)
"""The first numbers of SplitMix64 from the seed 1234567, as listed beside its implementations on Rosetta Code."""


def test_the_numbers_are_the_published_ones() -> None:
    assert [number % 2**64 for number in splitmix64(1234567, 5).tolist()] == list(PUBLISHED)


@needs_kernels
@pytest.mark.parametrize("entries", [0, 1, 31, 32, 33, 5_000])
@pytest.mark.parametrize("seed", [0, 1234567, -1, 2**63 - 1, -(2**63)])
def test_the_kernel_makes_the_numbers_of_the_twin(seed: int, entries: int) -> None:
    native = bits_of_seed(seed, torch.empty(entries))
    with kernels.use("torch"):
        assert torch.equal(native, bits_of_seed(seed, torch.empty(entries)))


def test_uniform_numbers_lie_evenly_between_zero_and_one() -> None:
    torch.manual_seed(3)
    result = uniform_numbers(40_001)
    assert result.shape == (40_001,)
    assert 0.0 < float(result.min()) < 1e-3 < 1 - 1e-3 < float(result.max()) < 1.0
    tenths = torch.histc(result, 10, 0.0, 1.0) / len(result)
    # five standard deviations of a tenth of so many
    assert float((tenths - 0.1).abs().max()) < 5 * (0.09 / len(result)) ** 0.5
    assert not torch.equal(result, uniform_numbers(40_001))
    torch.manual_seed(3)
    assert torch.equal(result, uniform_numbers(40_001))


@needs_kernels
def test_the_number_of_threads_changes_no_draw() -> None:
    before, result = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            result.append(bits_of_seed(5, torch.empty(10_001)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(result[0], result[1])
    assert torch.equal(result[0], result[2])


def test_a_draw_depends_on_the_seed_and_its_place_alone() -> None:
    whole = bits_of_seed(9, torch.empty(1000))
    assert torch.equal(bits_of_seed(9, torch.empty(10, 7)).flatten(), whole[:70])
    assert not torch.equal(bits_of_seed(10, torch.empty(1000)), whole)


def test_every_level_is_drawn_as_often() -> None:
    """Chi-squared over 256 bins of high and of low bits: 255 on average, above 400 once in 10**8 times."""
    levels = bits_of_seed(3, torch.empty(1_000_000)).long()
    for bins in ((levels + 2**15) // 256, levels % 256):
        counts = torch.bincount(bins, minlength=256).double()
        assert counts.numel() == 256
        expected = levels.numel() / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400


def test_the_generator_of_pytorch_decides_on_the_seed() -> None:
    torch.manual_seed(7)
    first, second = random_seed(), random_seed()
    assert first != second
    torch.manual_seed(7)
    assert torch.equal(random_bits(torch.empty(3, 4)), bits_of_seed(first, torch.empty(3, 4)))
    assert -(2**63) <= first < 2**63


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_draws_from_its_own_generator() -> None:
    like = torch.empty(100_000, device="cuda")
    torch.manual_seed(7)
    first = random_bits(like)
    torch.manual_seed(7)
    assert torch.equal(random_bits(like), first)
    assert first.device == like.device
    assert abs(first.double().mean().item()) < 5 * 2**16 / 12**0.5 / 100_000**0.5
