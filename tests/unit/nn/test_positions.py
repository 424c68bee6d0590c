"""Sinusoidal positions against both published formulas in numpy float64."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dikkat.nn.positions import Layout, SinusoidalPositions, sinusoids


def paper(length: int, width: int) -> NDArray[np.float64]:
    """Column 2j is sin(i / 10000^(2j/D)), column 2j+1 its cosine (Vaswani et al. 2017, section 3.5)."""
    table = np.empty((length, width))
    for column in range(width):
        angle = np.arange(length) / 10000 ** ((column - column % 2) / width)
        table[:, column] = np.cos(angle) if column % 2 else np.sin(angle)
    return table


def tensor2tensor(length: int, width: int) -> NDArray[np.float64]:
    """All sines, then all cosines, of frequencies 10000^(-j / (D/2 - 1)) (even D, as published)."""
    frequencies = 10000.0 ** (-np.arange(width // 2) / (width // 2 - 1))
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1)


@pytest.mark.parametrize("width", [1, 2, 7, 32, 33, 512])
def test_interleaved_is_the_paper(width: int) -> None:
    np.testing.assert_allclose(sinusoids(1500, width).numpy(), paper(1500, width), rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [4, 32, 512])
def test_halves_are_the_columns_of_the_paper_sines_first(width: int) -> None:
    expected = paper(1500, width)
    expected = np.concatenate((expected[:, 0::2], expected[:, 1::2]), axis=1)
    np.testing.assert_allclose(sinusoids(1500, width, "halves").numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [4, 32, 512])
def test_concatenated_is_tensor2tensor(width: int) -> None:
    table = sinusoids(1500, width, "concatenated").numpy()
    np.testing.assert_allclose(table, tensor2tensor(1500, width), rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 33])
def test_concatenated_in_small_and_odd_widths_lacks_only_a_cosine(width: int) -> None:
    table = sinusoids(50, width, "concatenated")
    assert table.shape == (50, width)
    assert torch.isfinite(table).all()
    assert torch.equal(table, sinusoids(50, width + width % 2, "concatenated")[:, :width])


@pytest.mark.seed("C3")
def test_printed_values() -> None:
    table = sinusoids(60, 32)
    torch.testing.assert_close(table[1, 6:10], torch.tensor([0.1769, 0.9842, 0.0998, 0.9950]), rtol=0, atol=5e-5)
    assert table[0].tolist() == [0.0, 1.0] * 16
    assert table.abs().max() <= 1


@pytest.mark.seed("C5")
def test_periods_of_the_plotted_columns() -> None:
    """Columns 6 and 7 come round after 35.33 positions, 8 and 9 after 62.83; 6 and 7 are 90 degrees apart."""
    frequency_6, frequency_8 = (np.arcsin(sinusoids(2, 32)[1, column].item()) for column in (6, 8))
    assert abs(2 * np.pi / frequency_6 - 35.33) < 0.01
    assert abs(2 * np.pi / frequency_8 - 62.83) < 0.01
    table = sinusoids(60, 32)
    torch.testing.assert_close(table[:, 6] ** 2 + table[:, 7] ** 2, torch.ones(60))


@pytest.mark.seed("C8")
def test_a_shift_is_a_rotation_that_does_not_depend_on_the_position() -> None:
    """In float32 as delivered; the dot product of two positions depends on their distance only."""
    table, width = sinusoids(1060, 32).double(), 32
    for shift in (1, 5, 50):
        for j in range(width // 2):
            angle = shift / 10000 ** (2 * j / width)
            rotation = torch.tensor([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            pair = table[:1000, 2 * j : 2 * j + 2]
            torch.testing.assert_close(
                pair @ rotation.T, table[shift : 1000 + shift, 2 * j : 2 * j + 2], rtol=0, atol=1e-6
            )
        products = (table[:1000] * table[shift : 1000 + shift]).sum(-1)
        torch.testing.assert_close(products, products[0].expand(1000), rtol=0, atol=1e-5)


@pytest.mark.seed("D14")
def test_both_four_wide_examples() -> None:
    torch.testing.assert_close(sinusoids(2, 4)[1], torch.tensor([0.8415, 0.5403, 0.0100, 0.99995]), rtol=0, atol=5e-5)
    table = sinusoids(3, 4, "concatenated")
    torch.testing.assert_close(table[1], torch.tensor([0.84, 0.0001, 0.54, 1.0]), rtol=0, atol=5e-3)
    torch.testing.assert_close(table[2], torch.tensor([0.91, 0.0002, -0.42, 1.0]), rtol=0, atol=5e-3)
    assert abs(table[1, 1].item() - 0.0001) < 1e-6


def test_an_unknown_layout_is_refused(unchecked_shapes: None) -> None:
    with pytest.raises(ValueError, match='layout must be "interleaved", "halves" or "concatenated", not \'spiral\''):
        sinusoids(2, 4, "spiral")  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("offset", [0, 1, 255, 256, 5000])
def test_the_offset_chooses_the_rows(layout: Layout, offset: int) -> None:
    formula = paper if layout == "interleaved" else tensor2tensor
    added = SinusoidalPositions(16, layout)(torch.zeros(2, 3, 16), offset=offset)
    expected = torch.from_numpy(formula(offset + 3, 16)[offset:]).float()
    torch.testing.assert_close(added, expected.expand(2, 3, 16), rtol=0, atol=1e-6)


def test_positions_are_added_to_the_input() -> None:
    x = torch.randn(2, 5, 8)
    positions = SinusoidalPositions(8)
    torch.testing.assert_close(positions(x) - x, positions(torch.zeros_like(x)), rtol=0, atol=1e-6)


def test_the_table_grows_and_keeps_its_rows() -> None:
    positions = SinusoidalPositions(8, initial_length=4)
    before = positions(torch.zeros(1, 4, 8))
    grown = positions(torch.zeros(1, 3000, 8))
    assert torch.equal(grown[:, :4], before)
    np.testing.assert_allclose(grown[0].numpy(), paper(3000, 8), rtol=0, atol=1e-6)


def test_growth_during_inference_leaves_the_module_trainable() -> None:
    positions, weight = SinusoidalPositions(8, initial_length=4), torch.ones(8, requires_grad=True)
    with torch.inference_mode():
        positions(torch.zeros(1, 9, 8))
    (positions(weight.expand(1, 9, 8)) * weight).sum().backward()
    assert weight.grad is not None
    copy.deepcopy(positions)(torch.zeros(1, 9, 8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_input_keeps_its_type(dtype: torch.dtype) -> None:
    assert SinusoidalPositions(8)(torch.zeros(1, 300, 8, dtype=dtype)).dtype == dtype
