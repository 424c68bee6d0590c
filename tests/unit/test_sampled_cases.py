"""By day every n-th case of a function runs; what is sampled is there, and the others are marked nightly."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sampled_cases import SAMPLED_CASES, is_strict, left_to_the_nightly

ROOT = Path(__file__).resolve().parents[2]


def test_every_function_of_the_table_is_there() -> None:
    for function, step in SAMPLED_CASES.items():
        path, _, name = function.partition("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), function
        assert step > 1, function


def test_the_first_and_every_nth_case_stay() -> None:
    tests = [
        "a.py::one[0]",
        "b.py::one[0]",
        "a.py::one[1]",
        "a.py::one[2]",
        "a.py::two",
        "a.py::one[x::y]",
        "b.py::one",
    ]
    assert list(left_to_the_nightly(tests, {"a.py::one": 3})) == [2, 3]


@pytest.mark.parametrize(
    ("node_id", "marker_expression", "strict"),
    [
        ("a.py::one[0]", "not nightly", False),
        ("a.py::one[0]", "not nightly and not slow", False),
        ("a.py::one[0]", "nightly", True),
        ("a.py::one[0]", "", True),
        ("a.py::two", "nightly", False),
    ],
)
def test_sampled_functions_have_every_call_checked_except_by_day(
    node_id: str, marker_expression: str, strict: bool
) -> None:
    assert is_strict(node_id, marker_expression, {"a.py::one": 3}) == strict
