"""Pictures: what is drawn, whether it is legible, and how it is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from dikkat.explain import AttentionMap, plots
from dikkat.explain.pictures import save_figure
from dikkat.explain.plots import plot_heads, plot_training
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError, UsageError

ENGLISH = ["the", "little", "girl", "who", "was", "wearing", "a", "red", "dress", "did", "not", "want", "apples", "."]
TURKISH = ["yaşlı", "evin", "bahçesinde", "kırmızı", "elbise", "giyen", "küçük", "kız", "yemek", "İstanbul'daydı", "."]
ROWS = [
    {"step": 400, "train_loss": 3.8, "valid_loss": 3.9, "chrf": 20.5, "bleu": 5.0, "seconds": 60.0},
    {"step": 800, "train_loss": 2.5, "valid_loss": 2.8, "chrf": 41.5, "bleu": 18.0, "seconds": 120.0},
    {"step": 1200, "train_loss": 1.9, "valid_loss": 2.6, "chrf": 40.0, "bleu": 17.5, "seconds": 180.0},
]


def make_maps(
    query: list[str], key: list[str], heads: int, layer: int = 0, kind: Literal["self", "cross"] = "cross"
) -> list[AttentionMap]:
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(len(key)), size=(heads, len(query))).astype(np.float32)
    return [
        AttentionMap(weights[head], tuple(query), tuple(key), "decoder", layer, head, kind) for head in range(heads)
    ]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures as they were saved."""
    saved: list[Figure] = []
    save = save_figure

    def keep(figure: Figure, path: Path) -> None:
        saved.append(figure)
        save(figure, path)

    monkeypatch.setattr(plots, "save_figure", keep)
    return saved


def text_boxes(figure: Figure) -> list[Any]:
    """Boxes in pixels of everything written, after layout."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    written = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    return [text.get_window_extent(renderer) for text in written if text.get_text().strip()]


def tick_labels(axes: Any, axis: str) -> list[str]:
    return [label.get_text() for label in getattr(axes, f"get_{axis}ticklabels")()]


@pytest.mark.seed("E14")
def test_heat_maps_of_two_layers_and_four_heads(tmp_path: Path, figures: list[Figure]) -> None:
    keys = ["i'm", "home", ".", "<eos>", "<pad>"]
    maps = [item for layer in range(2) for item in make_maps(["je", "suis", "."], keys, 4, layer)]
    plot_heads(maps, tmp_path / "heads.png")
    panels = [axes for axes in figures[0].axes if axes.images]
    assert [axes.get_title().split("\n")[1] for axes in panels] == [f"Head {head}" for head in (1, 2, 3, 4)] * 2
    assert [axes.get_title().split("\n")[0] for axes in panels] == ["decoder 1, cross"] * 4 + ["decoder 2, cross"] * 4
    for axes, item in zip(panels, maps, strict=True):
        assert np.array_equal(np.asarray(axes.images[0].get_array()), item.weights)
        assert axes.images[0].get_cmap().name == "Reds"
        assert axes.images[0].get_clim() == (0.0, max(float(item.weights.max()) for item in maps))
    for bottom in panels[4:]:
        assert tick_labels(bottom, "x") == keys
    for leftmost in panels[::4]:
        assert tick_labels(leftmost, "y") == ["je", "suis", "."]


@pytest.mark.parametrize(
    "heads", [pytest.param(1, marks=pytest.mark.nightly), 3, pytest.param(8, marks=pytest.mark.nightly)]
)
def test_up_to_25_tokens_nothing_overlaps_and_nothing_is_cut(tmp_path: Path, figures: list[Figure], heads: int) -> None:
    query = (TURKISH * 3)[:25]
    key = (ENGLISH * 2)[:25]
    plot_heads(make_maps(query, key, heads), tmp_path / "heads.png", "English → Turkish, a title longer than one map")
    boxes = text_boxes(figures[0])
    assert len(boxes) >= 50
    width, height = figures[0].canvas.get_width_height()
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    for index, box in enumerate(boxes):
        for other in boxes[index + 1 :]:
            assert box.x1 <= other.x0 or other.x1 <= box.x0 or box.y1 <= other.y0 or other.y1 <= box.y0


def test_maps_with_different_tokens_each_have_their_labels(tmp_path: Path, figures: list[Figure]) -> None:
    maps = make_maps(["a", "b"], ["c"], 1) + make_maps(["d"], ["e", "f"], 1, kind="self")
    plot_heads(maps, tmp_path / "heads.png")
    panels = [axes for axes in figures[0].axes if axes.images]
    assert [tick_labels(axes, "y") for axes in panels] == [["a", "b"], ["d"]]
    assert [axes.get_title() for axes in panels] == ["decoder 1, cross\nHead 1", "decoder 1, self\nHead 1"]


def test_mean_of_heads_is_called_so(tmp_path: Path, figures: list[Figure]) -> None:
    mean = AttentionMap(np.ones((1, 1), dtype=np.float32), ("a",), ("b",), "decoder", 0, None, "self")
    plot_heads([mean], tmp_path / "mean.png")
    assert figures[0].axes[0].get_title() == "Mean of heads"


def test_awkward_tokens_are_drawn_literally(tmp_path: Path, figures: list[Figure]) -> None:
    tokens = ["$x_1$", "a\nb", " ", "x" * 200, "\\frac{"]
    plot_heads(make_maps(tokens, tokens, 1), tmp_path / "heads.svg", "costs $5 or $6")
    assert tick_labels(figures[0].axes[0], "x") == ["$x_1$", "a·b", "␣", "x" * 23 + "…", "\\frac{"]


def test_more_tokens_than_fit_the_largest_picture_are_labelled_now_and_then(
    tmp_path: Path, figures: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "_MAX_MAP_INCHES", 8.0)
    tokens = [f"t{number}" for number in range(120)]
    plot_heads(make_maps(tokens, tokens, 1), tmp_path / "heads.png")
    assert max(figures[0].get_size_inches()) == pytest.approx(8.0)
    shown = tick_labels(figures[0].axes[0], "y")
    assert shown == tokens[:: round(120 / len(shown))]
    assert figures[0].axes[0].get_window_extent().height / figures[0].dpi * 72 / len(shown) >= 8.0  # points a label


def test_more_tokens_than_can_be_told_apart_are_drawn_in_tiles(
    tmp_path: Path, figures: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "_MAX_TILES", 10)
    query, key = [f"q{number}" for number in range(15)], [f"k{number}" for number in range(30)]
    maps = make_maps(query, key, 2)
    plot_heads(maps, tmp_path / "heads.png")
    *panels, bar = figures[0].axes
    for axes, item in zip(panels, maps, strict=True):
        expected = [
            [item.weights[row : row + 2, at : at + 3].max() for at in range(0, 30, 3)] for row in range(0, 15, 2)
        ]
        assert np.array_equal(np.asarray(axes.images[0].get_array()), np.array(expected))
        # one large weight among thousands must not leave all others white
        assert 0 < axes.images[0].get_clim()[1] < max(float(item.weights.max()) for item in maps)
    assert tick_labels(panels[0], "y") == query[::2]
    assert tick_labels(panels[0], "x") == key[::3]
    assert bar.get_ylabel() == "largest attention weight of 2 × 3"


def test_a_long_source_and_a_short_output_leave_no_empty_space(tmp_path: Path, figures: list[Figure]) -> None:
    key = [f"k{number}" for number in range(150)]
    plot_heads(make_maps(["a", "b", "c"], key, 2), tmp_path / "heads.png")
    width, height = figures[0].get_size_inches()
    assert width == pytest.approx(40.0)
    assert height < 3.0


def test_a_size_on_request(tmp_path: Path, figures: list[Figure]) -> None:
    maps = make_maps([f"q{number}" for number in range(10)], [f"k{number}" for number in range(10)], 4)
    plot_heads(maps, tmp_path / "heads.png", "a title of two lines " * 5, inches=(7, 2.5))
    assert figures[0].get_size_inches().tolist() == [7, 2.5]
    panels = [axes for axes in figures[0].axes if axes.images]
    assert {axes.images[0].get_cmap().name for axes in panels} == {"Reds"}
    shown = tick_labels(panels[0], "y")
    assert 1 < len(shown) < 10
    height = panels[0].get_window_extent().height / figures[0].dpi * 72
    assert height / len(shown) >= 8.0  # points a label


def test_suffix_decides_the_format(tmp_path: Path) -> None:
    maps = make_maps(["a"], ["b"], 1)
    plot_heads(maps, tmp_path / "a.PNG")
    plot_heads(maps, tmp_path / "a.svg")
    plot_training(ROWS, tmp_path / "b.png")
    plot_training(ROWS, tmp_path / "b.svg")
    for name in ("a.PNG", "b.png"):
        with Image.open(tmp_path / name) as image:
            assert image.format == "PNG"
    for name in ("a.svg", "b.svg"):
        assert ElementTree.parse(tmp_path / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    ("name", "given"), [("a.jpg", r"\.jpg"), ("a", "a file without suffix"), ("a.html", r"\.html")]
)
def test_unknown_suffix_names_the_known_ones(tmp_path: Path, name: str, given: str) -> None:
    for draw in (
        lambda path: plot_heads(make_maps(["a"], ["b"], 1), path),
        lambda path: plot_training(ROWS, path),
    ):
        with pytest.raises(UsageError, match=rf"{name}: is written as \.png or \.svg, not {given}; rename it"):
            draw(tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_equal_data_give_equal_files(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        plot_training(ROWS, tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_no_map_no_picture(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no attention map to draw"):
        plot_heads([], tmp_path / "a.png")


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotCreateError, match=r"none/a\.png: .*none does not exist; create it"):
        plot_training(ROWS, tmp_path / "none" / "a.png")


def test_full_disk_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(DiskError, match=r"a\.png: writing failed: No space left"):
        plot_training(ROWS, path)
    assert path.read_bytes() == b"old"


def test_training_curves_show_losses_and_scores(tmp_path: Path, figures: list[Figure]) -> None:
    plot_training(ROWS, tmp_path / "training.png", "runs/en-de")
    loss, score = figures[0].axes
    curves = {line.get_label(): list(map(tuple, np.asarray(line.get_xydata()))) for line in [*loss.lines, *score.lines]}
    assert curves == {
        "training": [(400, 3.8), (800, 2.5), (1200, 1.9)],
        "validation": [(400, 3.9), (800, 2.8), (1200, 2.6)],
        "chrF": [(400, 20.5), (800, 41.5), (1200, 40.0)],
        "BLEU": [(400, 5.0), (800, 18.0), (1200, 17.5)],
    }
    assert loss.get_ylabel() == "loss (nats per target token)"
    assert score.get_ylabel() == "validation score (0–100)"
    assert score.get_xlabel() == "update (optimizer step)"
    assert score.get_title(loc="right") == "best chrF 41.5 at update 800"


def test_missing_values_are_left_out(tmp_path: Path, figures: list[Figure]) -> None:
    plot_training([{"step": 1, "train_loss": 3.0, "chrf": None}, {"step": 2, "train_loss": None}], tmp_path / "a.png")
    (loss,) = figures[0].axes
    assert [list(np.asarray(line.get_xdata())) for line in loss.lines] == [[1]]


@pytest.mark.parametrize("rows", [[], [{"step": 1}], [{"step": 1, "chrf": None}]])
def test_nothing_recorded_yet(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(DataError, match="no training curve to draw: no validation has been recorded"):
        plot_training(rows, tmp_path / "a.png")


def test_row_without_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 2 of the metrics has no step"):
        plot_training([{"step": 1, "chrf": 1.0}, {"chrf": 2.0}], tmp_path / "a.png")
