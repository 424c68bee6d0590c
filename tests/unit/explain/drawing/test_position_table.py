"""C5, C6: the position table read as waves, as binary digits and as rotations; the reference is the paper's formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dikkat.explain.drawing.position_table import PositionTable, binary_lines
from dikkat_runtime.errors import UsageError

KINDS = ["sinusoidal", "sinusoidal_concatenated"]


@pytest.mark.seed("C5")
def test_the_periods_of_columns_6_to_9() -> None:
    table = PositionTable("sinusoidal", 32, 60)
    assert [round(table.period(column), 2) for column in range(6, 10)] == [35.33, 35.33, 62.83, 62.83]
    rows, values = np.arange(60), table.values
    for column in range(6, 10):
        turned = 2 * np.pi * rows / table.period(column) + (np.pi / 2 if column % 2 else 0.0)
        np.testing.assert_allclose(values[:, column], np.sin(turned), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 7, 32])
def test_a_pair_is_the_sine_and_the_cosine_of_one_angle(kind: str, dim: int) -> None:
    table = PositionTable(kind, dim, 40)
    for pair in range(dim // 2):
        sine, cosine = table.columns(pair)
        assert table.pair(sine) == table.pair(cosine) == pair
        angles = np.arange(40) * 2 * math.pi / table.period(sine)
        np.testing.assert_allclose(table.values[:, sine], np.sin(angles), rtol=0, atol=1e-11)
        np.testing.assert_allclose(table.values[:, cosine], np.cos(angles), rtol=0, atol=1e-11)


@pytest.mark.seed("C6")
def test_the_numbers_in_binary() -> None:
    assert binary_lines() == [
        "0 in binary is 000", "1 in binary is 001", "2 in binary is 010", "3 in binary is 011",
        "4 in binary is 100", "5 in binary is 101", "6 in binary is 110", "7 in binary is 111",
    ]  # fmt: skip
    digits = [line.rpartition(" ")[2] for line in binary_lines()]
    for bit in range(3):
        flips = [number for number in range(1, 8) if digits[number][2 - bit] != digits[number - 1][2 - bit]]
        assert flips == list(range(2**bit, 8, 2**bit))


@pytest.mark.seed("C8")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [1, 5, 23])
def test_a_shift_is_one_rotation_whatever_the_row(kind: str, shift: int) -> None:
    table = PositionTable(kind, 16, 200)
    rotation = table.rotation(shift)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(16), rtol=0, atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    for row in (0, 1, 77, 199 - shift):
        np.testing.assert_allclose(table.values[row] @ rotation, table.values[row + shift], rtol=0, atol=1e-11)
    assert table.rotation_error(shift) <= 1e-11
    np.testing.assert_allclose(table.rotation(shift + 1), rotation @ table.rotation(1), rtol=0, atol=1e-12)


def test_an_odd_last_column_has_no_partner_and_is_left_out() -> None:
    table = PositionTable("sinusoidal", 7, 50)
    assert table.rotation_error(3) <= 1e-12
    assert not table.rotation(3)[6].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PositionTable("rotary", 32, 60), 'no fixed table of "rotary" positions; choose from sinusoidal, '),
        (lambda: PositionTable("sinusoidal", 1, 60), "dim must be from 2 to 10,000, not 1"),
        (lambda: PositionTable("sinusoidal", 32, 20_000), "length must be from 2 to 10,000, not 20000"),
        (lambda: PositionTable("sinusoidal", 8, 9).period(8), "no column 8: choose from 0 to 7"),
        (
            lambda: PositionTable("sinusoidal", 8, 9).rotation_error(9),
            "a shift must be from 1 to 8, the last row, not 9",
        ),
    ],
)
def test_what_there_is_not_is_one_line(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]
