"""C5, C7: the picture of the position table, as it is saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from dikkat.explain.drawing import position_table
from dikkat.explain.drawing.position_table import PositionTable, draw_positions
from dikkat.explain.pictures import save_figure
from dikkat_runtime.errors import UsageError

TABLE = PositionTable("sinusoidal", 32, 60)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    saved: list[Figure] = []

    def keep(figure: Figure, path: Path) -> None:
        saved.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(position_table, "save_figure", keep)
    return saved


@pytest.mark.seed("C5")
def test_the_waves_and_their_labels(figures: list[Figure], tmp_path: Path) -> None:
    draw_positions(TABLE, range(6, 10), 5, tmp_path / "positions.png")
    (figure,) = figures
    waves = figure.axes[0]
    assert waves.get_xlabel() == "Row (position)"
    legend = waves.get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()] == [
        "Col 6 (period 35.33)", "Col 7 (period 35.33)", "Col 8 (period 62.83)", "Col 9 (period 62.83)",
    ]  # fmt: skip
    rows = np.arange(60)
    for column, line in zip(range(6, 10), waves.get_lines(), strict=True):
        angles = rows / 10000 ** (2 * (column // 2) / 32)
        expected = np.cos(angles) if column % 2 else np.sin(angles)
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), expected, rtol=0, atol=1e-9)


@pytest.mark.seed("C7")
def test_the_heat_map(figures: list[Figure], tmp_path: Path) -> None:
    draw_positions(TABLE, range(6, 10), 5, tmp_path / "positions.png")
    with Image.open(tmp_path / "positions.png") as image:
        assert min(image.size) > 600
    heat = figures[0].axes[1]
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("Column (encoding dimension)", "Row (position)")
    (image_shown,) = heat.get_images()
    assert image_shown.get_cmap().name == "Blues"
    shown = np.asarray(image_shown.get_array())
    assert shown.shape == (60, 32)
    # frequencies fall from left to right: the pairs change sign ever less often
    changes = [(np.diff(np.sign(shown[1:, column])) != 0).sum() for column in range(0, 32, 2)]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > changes[-1]


def test_the_rotation_is_told_in_degrees(figures: list[Figure], tmp_path: Path) -> None:
    draw_positions(TABLE, [6, 8], 5, tmp_path / "positions.svg")
    assert (tmp_path / "positions.svg").read_text(encoding="utf-8").startswith("<?xml")
    legend = figures[0].axes[2].get_legend()
    assert legend is not None
    # 5 rows of a wave of 35.33 and of 62.83 rows
    assert [entry.get_text() for entry in legend.get_texts()] == ["columns 6, 7: 50.9°", "columns 8, 9: 28.6°"]


@pytest.mark.parametrize(
    ("table", "columns", "shift"),
    [
        (PositionTable("sinusoidal", 2, 2), [0, 1], 1),
        (PositionTable("sinusoidal", 3, 5), [2], 4),
        (PositionTable("sinusoidal_concatenated", 64, 300), [0, 63], 100),
    ],
)
def test_any_size_can_be_drawn(table: PositionTable, columns: list[int], shift: int, tmp_path: Path) -> None:
    draw_positions(table, columns, shift, tmp_path / "positions.svg")
    assert (tmp_path / "positions.svg").stat().st_size > 1000


def test_a_suffix_nobody_knows_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is written as \.png or \.svg, not \.bmp"):
        draw_positions(TABLE, [6], 5, tmp_path / "positions.bmp")
