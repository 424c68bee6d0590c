"""What cannot be compared is refused by name, limit and value."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dikkat.lessons.comparison.layers import ComparisonSettings
from dikkat_runtime.errors import UsageError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lengths": (0,)}, "lengths must be from 1 to 32,768, not 0"),
        ({"lengths": (8, 40_000)}, "lengths must be from 1 to 32,768, not 40,000"),
        ({"lengths": ()}, "lengths must be at least one number"),
        ({"widths": (16, 8)}, "widths must be in ascending order, not 16, 8"),
        ({"widths": (8, 8)}, "widths must be in ascending order, not 8, 8"),
        ({"widths": (-1,)}, "widths must be from 1 to 4,096, not -1"),
        ({"copy_lengths": (1,)}, "copy_lengths must be from 2 to 1,024, not 1"),
        ({"kernel": 1}, "kernel must be from 2 to 1,024, not 1"),
        ({"layers": 0}, "layers must be from 1 to 32, not 0"),
        ({"updates": 0}, "updates must be from 1 to 1,000,000, not 0"),
        ({"seed": -1}, "seed must be from 0 to 4,294,967,295, not -1"),
        ({"cell": "gruu"}, 'there is no cell "gruu"; did you mean "gru"?; choose from gru, rnn'),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        ComparisonSettings(**given)


def test_the_smallest_width_is_that_of_all_else() -> None:
    assert ComparisonSettings(widths=(8, 16)).width == 8


def test_an_even_kernel_is_as_good_as_an_odd_one() -> None:
    assert ComparisonSettings(kernel=4).kernel == 4
