"""The picture: the numbers in its panels, whether it is legible, and how it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from dikkat.explain.pictures import save_figure
from dikkat.lessons.comparison.explanation import Comparison, draw_comparison
from dikkat.lessons.comparison.measurement import Forms
from dikkat_runtime.errors import CannotCreateError, UsageError


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures as they were saved."""
    saved: list[Figure] = []

    def keep(figure: Figure, path: Path) -> None:
        saved.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr("dikkat.lessons.comparison.explanation.save_figure", keep)
    return saved


def curves(axes: Any) -> dict[str, list[tuple[float, float]]]:
    """The points of each curve, by its name."""
    named = ((str(line.get_label()).split(":")[0], np.asarray(line.get_xydata())) for line in axes.lines)
    return {name: [tuple(point) for point in points] for name, points in named}


def labels_out_of_view(axes: Any) -> list[Text]:
    """Matplotlib keeps labels beyond the ends of an axis, and does not draw them."""
    ticks = [
        (tick, sorted(axis.get_view_interval()))
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
    ]
    return [tick.label1 for tick, (low, high) in ticks if not low <= tick.get_loc() <= high]


def test_panels_hold_what_was_found(small: Comparison, tmp_path: Path, figures: list[Figure]) -> None:
    draw_comparison(small, tmp_path / "a.png")
    operations, time, memory, over_width, reach, trained = figures[0].axes
    assert [axes.get_title(loc="left") for axes in figures[0].axes] == [
        "Operations over length, d = 8",
        "Time over length, d = 8",
        "Memory over length, d = 8",
        "Time over width, n = 16",
        "Gradient of the last output, one layer",
        "Learned: name the first of n tokens",
    ]
    assert curves(operations)["convolution"] == [(16, 3 * 16 * 64), (32, 3 * 32 * 64)]
    assert curves(operations)["without its projections"] == [(16, 2 * 16**2 * 8), (32, 2 * 32**2 * 8)]
    for axes, sweep in ((time, small.over_length), (over_width, small.over_width)):
        milliseconds = [point.measured.seconds * 1e3 for point in sweep.of("recurrence")]
        assert curves(axes)["recurrence"] == list(zip(sweep.sizes, milliseconds, strict=True))
    assert {"attention, whole matrix", "self-attention"} < set(curves(memory))
    assert len(curves(reach)["convolution"]) == 3
    assert [x for x, _ in curves(reach)["recurrence"]] == list(range(63, -1, -1))
    shown = curves(trained)["self-attention"]
    assert shown == [(item.length, 100 * item.accuracy) for item in small.copied if item.kind == "self-attention"]


def test_nothing_is_cut_and_no_text_overlaps(small: Comparison, tmp_path: Path, figures: list[Figure]) -> None:
    draw_comparison(small, tmp_path / "a.png")
    canvas = FigureCanvasAgg(figures[0])
    canvas.draw()
    renderer = canvas.get_renderer()
    undrawn = {id(label) for axes in figures[0].axes for label in labels_out_of_view(axes)}
    written = [text for text in figures[0].findobj(Text) if isinstance(text, Text) and id(text) not in undrawn]
    boxes = [text.get_window_extent(renderer) for text in written if text.get_visible() and text.get_text().strip()]
    assert len(boxes) > 60
    width, height = canvas.get_width_height()
    for index, box in enumerate(boxes):
        assert 0 <= box.x0 <= box.x1 <= width
        assert 0 <= box.y0 <= box.y1 <= height
        for other in boxes[index + 1 :]:
            assert box.x1 <= other.x0 or other.x1 <= box.x0 or box.y1 <= other.y0 or other.y1 <= box.y0


def test_without_the_whole_matrix(small: Comparison, tmp_path: Path, figures: list[Figure]) -> None:
    draw_comparison(replace(small, forms=Forms(8, (), ())), tmp_path / "a.png")
    assert "attention, whole matrix" not in curves(figures[0].axes[2])


def test_png_and_svg_and_equal_files_of_equal_data(small: Comparison, tmp_path: Path) -> None:
    for name in ("a.png", "b.svg", "c.svg"):
        draw_comparison(small, tmp_path / name)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
    assert ElementTree.parse(tmp_path / "b.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "c.svg").read_bytes()


def test_a_picture_that_cannot_be_written(small: Comparison, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.gif: a picture is written as \.png or \.svg, not \.gif; rename it"):
        draw_comparison(small, tmp_path / "a.gif")
    with pytest.raises(CannotCreateError, match="none does not exist; create it first"):
        draw_comparison(small, tmp_path / "none" / "a.png")
    assert list(tmp_path.iterdir()) == []
