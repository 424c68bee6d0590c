"""The comparison told and written: every part, in the numbers that were found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dikkat.explain.explanation import Step, Table, as_table
from dikkat.lessons.comparison.compare import compare
from dikkat.lessons.comparison.explanation import Comparison, numbers, render_comparison
from dikkat.lessons.comparison.layers import KINDS, ComparisonSettings, costs


def table(found: Comparison, number: int) -> Table:
    step = render_comparison(found).steps[number - 1]
    assert step.heading.startswith(f"{number}. ")
    assert step.table is not None
    return step.table


def step(found: Comparison, number: int) -> Step:
    return render_comparison(found).steps[number - 1]


@pytest.mark.seed("F26")
def test_both_counts_are_in_the_table(small: Comparison) -> None:
    formulas, numbers = table(small, 1), table(small, 2)
    assert formulas.rows[2][1:3] == ("2 n² d", "2 n² d + 4 n d²")
    attention = costs(32, 8, kernel=3)["self-attention"]
    assert numbers.rows[1][0] == "32"
    assert float(numbers.rows[1][4]) == pytest.approx(attention.without_projections / 1e6, abs=0.005)
    assert float(numbers.rows[1][5]) == pytest.approx(attention.with_projections / 1e6, abs=0.005)
    assert numbers.rows[1][6] == "16 / 32 / 1"
    assert "n < 2 d = 16" in step(small, 2).after[0]


@pytest.mark.seed("C2")
def test_the_measured_tables_carry_their_exponents_and_ranges(small: Comparison) -> None:
    result, sweep = table(small, 3), small.over_length
    assert [row[0] for row in result.rows] == [f"{length}" for length in sweep.lengths]
    exponents = [item.seconds for item in sweep.growth] + [item.bytes for item in sweep.growth]
    assert result.total == ("exponent", *(f"{item.value:.2f}" for item in exponents if item))
    assert "fitted over n = 16 … 32" in step(small, 3).after[0]
    assert "PyTorch's allocator" in " ".join(step(small, 3).text)


@pytest.mark.seed("C2")
def test_reach_is_told_with_its_prediction(small: Comparison) -> None:
    rows = {(row[0], row[1]): row[2:] for row in table(small, 4).rows}
    assert rows["convolution", "1"][:4] == ("64", "3", "3", "x62")
    assert rows["convolution", "2"][:4] == ("64", "5", "5", "x60")
    assert rows["convolution", "1"][4] == "0"
    assert rows["self-attention", "1"][:4] == rows["recurrence", "2"][:4] == ("64", "64", "64", "x1")
    messages = step(small, 4).after[0]
    assert "For k = 3, L = 2 they join x1 and x5 (size of the derivative 0." in messages
    assert "but not x1 and x6 (0); 64 inputs take 32 layers." in messages


def test_json_holds_every_part(small: Comparison) -> None:
    content: dict[str, Any] = json.loads(json.dumps(numbers(small), allow_nan=False))
    assert set(content) == {
        "settings", "machine", "formulas", "how", "costs", "over_length", "reaches", "joined",
        "missed", "seconds",
    }  # fmt: skip
    assert content["settings"]["lengths"] == [16, 32]
    assert len(content["costs"]) == 2 * 3
    assert content["costs"][2] == {
        "kind": "self-attention", "length": 16, "width": 8, "without_projections": 2 * 16**2 * 8,
        "with_projections": 2 * 16**2 * 8 + 4 * 16 * 8**2, "sequential_steps": 1, "path_length": 1,
    }  # fmt: skip
    assert len(content["over_length"]["points"]) == 2 * 3
    assert set(content["over_length"]["points"][0]) == {"kind", "length", "width", "operations", "measured"}
    assert set(content["over_length"]["growth"][0]) == {"kind", "seconds", "bytes", "operations"}
    assert [(item["kind"], item["layers"]) for item in content["reaches"]] == [(k, n) for n in (1, 2) for k in KINDS]
    assert (content["joined"]["length"], content["joined"]["earliest"]) == (5, 1)
    assert (content["missed"]["length"], content["missed"]["earliest"]) == (6, 2)
    assert "allocator" in content["how"]["memory"]


def test_where_there_is_nothing_to_fit() -> None:
    one = compare(
        ComparisonSettings(lengths=(9,), width=4, layers=1),
        lambda done, pieces, what: None,
    )
    assert table(one, 3).total == ("exponent", *("–",) * 6)
    assert step(one, 3).after == ()
    assert numbers(one)["over_length"]["growth"][0]["seconds"] is None
    assert len(one.reaches) == 3


def test_the_tables_fit_a_hundred_columns(small: Comparison) -> None:
    lines = as_table(render_comparison(small), 100).split("\n")
    assert max(map(len, lines)) <= 100
    # no cell was folded: every row of the first table starts with its layer
    at = lines.index(next(line for line in lines if line.startswith(" layer ")))
    assert [line.split()[0] for line in lines[at + 2 : at + 5]] == list(KINDS)


def test_progress_counts_to_its_end(small_settings: ComparisonSettings) -> None:
    heard: list[tuple[int, int]] = []
    compare(small_settings, lambda done, pieces, what: heard.append((done, pieces)))
    assert [done for done, _ in heard] == list(range(heard[0][1]))
