"""The picture of labelled points: labels cover neither each other nor the frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from dikkat.explain import plots
from dikkat.explain.pictures import save_figure
from dikkat.explain.plots import plot_points
from dikkat_runtime.errors import UsageError


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures as they were when they were written."""
    figures: list[Figure] = []

    def keep(figure: Figure, path: Path) -> None:
        figures.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(plots, "save_figure", keep)
    return figures


def boxes(figure: Figure) -> list[Any]:
    (axes,) = figure.axes
    figure.draw_without_rendering()  # measured at the resolution of the figure, not of the file
    return [text.get_window_extent() for text in axes.texts]


def test_labels_neither_overlap_nor_leave_the_frame(tmp_path: Path, drawn: list[Figure]) -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    labels = [f"sentence number {number}, $x_{number}$" for number in range(60)]
    shown = plot_points(points, labels, tmp_path / "points.png", title="60 $ points", caption="a plane")
    (figure,) = drawn
    result = boxes(figure)
    assert len(result) == shown
    assert 20 < shown < 60
    frame = figure.axes[0].get_window_extent()
    for index, box in enumerate(result):
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        assert not any(box.overlaps(other) for other in result[:index])
    with Image.open(tmp_path / "points.png") as image:
        assert image.width > 1000
        assert np.asarray(image.convert("L")).std() > 5


def test_few_points_all_have_their_label(tmp_path: Path, drawn: list[Figure]) -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    assert plot_points(points, ["left", "line\nbreak\t", "y" * 70], tmp_path / "points.svg") == 3
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["left", "line·break·", "y" * 59 + "…"]


def test_equal_points_have_as_many_labels_as_there_is_room_for(tmp_path: Path) -> None:
    assert 1 <= plot_points(np.zeros((50, 2)), ["same"] * 50, tmp_path / "points.png") < 50


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"points\.gif: is written as \.png or \.svg"):
        plot_points(np.zeros((2, 2)), ["a", "b"], tmp_path / "points.gif")
