"""D15: the drawing of any configured model: complete, legible, nothing cut, nothing overlapping."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from tests.unit.explain.drawing.drawings import SVG, boxes, paper, read, texts
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import config

from dikkat.config import build_config
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.outline import Outline, outline_of_config
from dikkat.presets import PRESETS

CASES = {
    **{name: config(**choice) for name, choice in CHOICES.items() if name in ("default", "modern", "everything")},
    **{f"preset {name}": build_config(settings).model for name, settings in PRESETS.items()},
    "huge": build_config({"model": {"model_dim": 16384, "num_heads": 128, "vocab_size": 1_000_000,
                                    "feed_forward_dim": 65536, "encoder_layers": 2, "decoder_layers": 2}}).model,
}  # fmt: skip


def drawn(**choice: Any) -> str:
    return draw_model(outline_of_config(config(**choice), "model"))


def one_stack(outline: Outline, number: int) -> Outline:
    """As a classifier's encoder or a language model's decoder would be."""
    stack = outline.stacks[number]
    own = tuple(item for item in stack.block if not item.reads_memory)
    return replace(outline, stacks=(replace(stack, block=own),), tied=False)


@pytest.mark.seed("D15")
@pytest.mark.parametrize("name", CASES)
def test_texts_fit_their_boxes_and_nothing_overlaps(name: str) -> None:
    drawing = draw_model(outline_of_config(CASES[name], name))
    whole, parts, written = paper(drawing), boxes(drawing), texts(drawing)
    assert all(whole.holds(item) for item in (*parts, *boxes(drawing, {"frame"})))
    for one, other in combinations(parts, 2):
        assert not one.meets(other)
    for content, index in written:
        assert whole.holds(index), content
        assert sum(item.meets(index) for item in parts) == sum(item.holds(index) for item in parts), content
    for first, second in combinations(written, 2):
        assert not first[1].meets(second[1]), (first[0], second[0])


@pytest.mark.seed("D15")
@pytest.mark.parametrize("number", [0, 1])
def test_one_stack_alone_is_a_drawing_too(number: int) -> None:
    outline = one_stack(outline_of_config(config(), "alone"), number)
    drawing = draw_model(outline)
    assert "K, V" not in drawing
    assert "one matrix" not in drawing
    assert len(boxes(drawing, {"frame"})) == 1
    whole = paper(drawing)
    assert all(whole.holds(index) for _, index in texts(drawing))
    assert f"alone: {outline.parameters:,} parameters" in [content for content, _ in texts(drawing)]


@pytest.mark.seed("D15")
@pytest.mark.parametrize(
    ("placement", "encoder"),
    [
        ("pre", ["embedding", "positions", "norm", "attention", "sum", "norm", "feed_forward", "sum", "norm"]),
        ("post", ["embedding", "positions", "attention", "norm", "feed_forward", "norm"]),
    ],
)
def test_parts_stand_upwards_in_the_true_order(placement: str, encoder: list[str]) -> None:
    result = boxes(drawn(norm_placement=placement))
    left = min(item.left for item in result)
    column = sorted((item for item in result if item.left == left), key=lambda item: -item.bottom)
    assert [item.kind for item in column] == encoder
    tops = sorted((item for item in result if item.left != left), key=lambda item: item.top)
    assert [item.kind for item in tops[:2]] == ["softmax", "output"]


@pytest.mark.seed("D15")
def test_blocks_masks_sizes_and_ties_are_told() -> None:
    drawing = drawn(encoder_layers=5, decoder_layers=7)
    messages = [content for content, _ in texts(drawing)]
    wanted = [
        "5 ×",
        "7 ×",
        "K, V",
        "mask: causal (no future)",
        "mask: source padding",
        "source ids (B, S)",
        "probabilities (B, T, V)",
    ]
    assert set(wanted) <= set(messages)
    assert messages.count("one matrix") == 2
    tied = [item for item in read(drawing).iter(f"{SVG}path") if item.attrib.get("class") == "tied"]
    assert len(tied) == 2
    assert "one matrix" not in drawn(tie_embeddings=False)


@pytest.mark.seed("D15")
def test_it_is_light_and_dark_and_needs_nothing_else() -> None:
    drawing = drawn()
    assert "prefers-color-scheme: dark" in drawing
    assert drawing.count("http") == 1  # the name of the format itself
    assert "<script" not in drawing
    assert "url(" not in drawing


def test_a_title_is_text_only() -> None:
    drawing = draw_model(outline_of_config(config(), '</svg><script>alert("1")</script>'))
    assert not list(read(drawing).iter(f"{SVG}script"))
    assert any(content.startswith('</svg><script>alert("1")') for content, _ in texts(drawing))
