"""Curves and bars: where points stand, which numbers the axes carry, and what cannot be drawn."""

from __future__ import annotations

import pytest
from tests.unit.explain.drawing.drawings import SVG, paper, read

from dikkat.explain.drawing.chart import Labels, histogram, line_chart

LABELS = Labels("Loss", "update", ("training", "validation"))


def told(drawing: str) -> list[str]:
    return [item.text or "" for item in read(drawing).iter(f"{SVG}text")]


def points(drawing: str) -> list[tuple[float, float]]:
    return [(float(item.attrib["cx"]), float(item.attrib["cy"])) for item in read(drawing).iter(f"{SVG}circle")]


def test_points_stand_in_proportion() -> None:
    drawing = line_chart(LABELS, [[(0, 0.0), (50, 1.0), (100, 4.0)], [(100, 2.0)]])
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points(drawing)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)
    assert (y0 - y2) / (y0 - y1) == pytest.approx(4.0, abs=0.01)
    assert x3 == x2
    assert y3 == pytest.approx((y0 + y2) / 2, abs=0.02)
    assert {"Loss", "update", "training", "validation", "0", "100", "4"} <= set(told(drawing))


@pytest.mark.parametrize(
    "series",
    [
        [[(7, 3.0)], []],
        [[(1, 2.0), (2, 2.0)], []],
        [[(1, 1e-7), (2, 3e-7)], [(1, -5.0)]],
        [[(1, 1e9), (10**6, 2e9)], []],
    ],
)
def test_everything_stays_on_the_paper(series: list[list[tuple[float, float]]]) -> None:
    drawing = line_chart(LABELS, series)
    whole = paper(drawing)
    assert points(drawing)
    for x, y in points(drawing):
        assert whole.left <= x <= whole.right
        assert whole.top <= y <= whole.bottom
    assert "nan" not in drawing
    assert "inf" not in drawing


def test_a_score_of_100_ends_the_axis() -> None:
    assert "150" not in told(line_chart(LABELS, [[(1, 0.0), (2, 100.00000000000004)], []]))


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match='nothing to draw in "Loss"'):
        line_chart(LABELS, [[], []])


def test_bars_are_as_high_as_their_counts() -> None:
    drawing = histogram(LABELS, [0, 10, 20], [[4, 1], [0, 2]])
    bars = [item for item in read(drawing).iter(f"{SVG}rect") if len(item)]
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert heights == [pytest.approx(heights[0] * share, abs=0.02) for share in (1.0, 0.25, 0.0, 0.5)]
    assert [bar[0].text for bar in bars] == [
        "training 0–10: 4", "training 10–20: 1", "validation 0–10: 0", "validation 10–20: 2",
    ]  # fmt: skip
    edges = [(float(bar.attrib["x"]), float(bar.attrib["x"]) + float(bar.attrib["width"])) for bar in bars]
    assert edges[0][1] <= edges[2][0] + 0.02
    assert edges[2][1] <= edges[1][0] + 0.02
