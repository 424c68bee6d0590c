"""How numbers are written."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.explain.written_numbers import dot_product, fixed, plain, trimmed, vector


@pytest.mark.parametrize(
    ("number", "text", "short"),
    [
        (0.78421, "0.7842", "0.7842"),
        (-0.5, "-0.5000", "-0.5"),
        (0.0, "0.0000", "0"),
        (-0.0, "0.0000", "0"),
        (0.00004, "4.00e-05", "4.00e-05"),
        (-1e-9, "-1.00e-09", "-1.00e-09"),
        (100.0, "100.0000", "100"),
        (2.5e6, "2.50e+06", "2.50e+06"),
    ],
)
def test_no_number_looks_like_zero_unless_it_is(number: float, text: str, short: str) -> None:
    assert fixed(number) == text
    assert trimmed(number) == short


def test_a_narrow_vector_is_written_out_and_a_wide_one_cut() -> None:
    assert vector(np.array([0.1, -0.2])) == "[0.1000, -0.2000]"
    assert vector(np.array([0.1, -0.2]), write=trimmed) == "[0.1, -0.2]"
    wide = np.arange(9.0)
    assert vector(wide) == "[0.0000, 1.0000, 2.0000, …]"
    assert vector(wide, full=True) == f"[{', '.join(f'{n}.0000' for n in range(9))}]"
    assert plain(wide[:2]) == "0.0000 1.0000"


def test_a_dot_product_term_by_term() -> None:
    left, right = np.array([0.5, -1.0]), np.array([2.0, 0.25])
    assert dot_product(left, right) == "0.5·2 + (-1)·0.25\n= 1.0000 + (-0.2500)"


def test_a_long_dot_product_says_how_many_terms_are_left_out() -> None:
    wide = np.arange(9.0)
    assert dot_product(wide, wide) == "0·0 + 1·1 + 2·2 + … (+6)"
    assert dot_product(wide, wide, full=True).count("·") == 9
