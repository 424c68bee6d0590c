"""A small heat map: a cell for each weight that can be seen, and tokens as text only."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.explain.drawing.drawings import SVG, paper, read, real_width

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.chart import small_map

WEIGHTS = np.array([[0.9, 0.09, 0.01], [0.0, 0.25, 0.75]], np.float32)


def drawn(queries: tuple[str, ...] = ("a", "b"), keys: tuple[str, ...] = ("x", "y", "z")) -> str:
    return small_map(AttentionMap(WEIGHTS, queries, keys, "decoder", 1, None, "cross"))


def test_cells_are_as_opaque_as_their_weights() -> None:
    cells = [item.attrib for item in read(drawn()).iter(f"{SVG}rect") if item.attrib["class"] == "cell"]
    assert [float(cell["fill-opacity"]) for cell in cells] == pytest.approx([0.9, 0.09, 0.25, 0.75])
    columns = sorted({float(cell["x"]) for cell in cells})
    indices = [(columns.index(float(cell["x"])), round(float(cell["y"]) / float(cell["height"]))) for cell in cells]
    assert indices == [(0, 0), (1, 0), (1, 1), (2, 1)]
    assert "decoder cross-attention, layer 2" in drawn()


def test_labels_are_clipped_escaped_and_on_the_paper() -> None:
    drawing = drawn(("</svg><script>", "W" * 40), ('" onload="x', "ı" * 30, "z"))
    labels = list(read(drawing).iter(f"{SVG}text"))
    assert [item.text for item in labels] == ["</svg><script>", "W" * 13 + "…", '" onload="x', "ı" * 13 + "…", "z"]
    whole = paper(drawing)
    for item in labels[:2]:
        assert float(item.attrib["x"]) - real_width(item.text or "", 10.5) >= whole.left
    for item in labels[2:]:
        assert float(item.attrib["y"]) + real_width(item.text or "", 10.5) <= whole.bottom


def test_rows_of_cross_attention_are_named_by_what_they_wrote() -> None:
    labels = [item.text for item in read(drawn(("<bos>", "je"))).iter(f"{SVG}text")]
    assert labels == ["je", "<eos>", "x", "y", "z"]
