"""A proof passes up to its limit, and never on what is no number."""

from __future__ import annotations

import math

import pytest

from dikkat.explain.doctor import Proof


@pytest.mark.parametrize(
    ("violation", "limit", "passed"),
    [(0.0, 0.0, True), (1e-6, 1e-6, True), (1.1e-6, 1e-6, False), (math.inf, 1.0, False), (math.nan, 1.0, False)],
)
def test_the_limit_passes_and_what_is_no_number_does_not(violation: float, limit: float, passed: bool) -> None:
    proof = Proof("name", "says", violation, limit)
    assert proof.passed is passed
    assert proof.outcome == ("pass" if passed else "fail")


def test_a_violation_with_another_to_blame_follows() -> None:
    assert Proof("name", "says", 1.0, 0.0, because="another").outcome == "follows"
    assert Proof("name", "says", 0.0, 0.0, because="another").outcome == "pass"
