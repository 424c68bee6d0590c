"""D15: the parts of any configured model, with the sizes and the counts of the real tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import config

from dikkat.config import build_config
from dikkat.explain.drawing.outline import Outline, Part, outline_as_text, outline_of, outline_of_config
from dikkat.models.factory import build_model
from dikkat.presets import PRESETS


def parts(outline: Outline) -> list[Part]:
    return [
        part
        for stack in outline.stacks
        for part in (*stack.below, *(inner for item in stack.block for inner in (item.part, item.norm)), *stack.above)
    ]


@pytest.mark.seed("D15")
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_parts_add_up_to_the_model(choice: dict[str, Any]) -> None:
    settings = config(**choice)
    model = build_model(settings, seed=1)
    total = sum(parameter.numel() for parameter in model.parameters())
    assert outline_of(model, settings, "model").parameters == total
    assert outline_of_config(settings, "model") == outline_of(model, settings, "model")


@pytest.mark.seed("D15")
def test_the_counts_are_those_of_the_formulas() -> None:
    width, wide, vocabulary, layers = 256, 1024, 8000, 3
    outline = outline_of_config(build_config({}).model, "small")
    attention, norm = 4 * (width * width + width), 2 * width
    feed_forward = 2 * width * wide + wide + width
    encoder, decoder = outline.stacks
    assert encoder.block_parameters == attention + feed_forward + 2 * norm
    assert decoder.block_parameters == 2 * attention + feed_forward + 3 * norm
    assert [part.parameters for part in encoder.below + encoder.above] == [vocabulary * width, 0, norm]
    assert [part.parameters for part in decoder.below + decoder.above] == [0, 0, norm, 0, 0]
    assert outline.parameters == vocabulary * width + layers * (3 * attention + 2 * feed_forward + 5 * norm) + 2 * norm


@pytest.mark.seed("D15")
def test_the_textbook_preset_has_its_published_number_of_parameters_between_embeddings_and_output() -> None:
    outline = outline_of_config(build_config(PRESETS["d2l"]).model, "d2l")
    assert sum(stack.layers * stack.block_parameters for stack in outline.stacks) == 41_984
    assert not outline.tied
    assert not outline.norm_first
    assert [part.parameters for stack in outline.stacks for part in stack.below + stack.above] == [
        256_000, 0, 256_000, 0, 8_000 * (32 + 1), 0,
    ]  # fmt: skip


@pytest.mark.seed("D15")
def test_a_tied_matrix_counts_once_and_says_so() -> None:
    tied = outline_of_config(config(), "tied")
    free = outline_of_config(config(tie_embeddings=False), "free")
    assert free.parameters - tied.parameters == 2 * 23 * 16
    said = [size for part in parts(tied) for size in part.sizes]
    assert "the matrix of the source embedding" in said
    assert "the matrix of the embeddings" in said
    assert not any("matrix" in size for part in parts(free) for size in part.sizes)


@pytest.mark.seed("D15")
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (
            {},
            ["4 heads × K = 4 × 4", "softmax(q · k / √4)", "mask: source padding", "mask: causal (no future)", "relu"],
        ),
        ({}, ["D → F → D: 16 → 32 → 16", "V × D = 23 × 16", "D × V = 16 × 23, no bias", "S × 16", "T × 16"]),
        ({"num_kv_heads": 2, "score": "dot"}, ["4 heads × K = 4 × 4, 2 of keys and values", "softmax(q · k)"]),
        ({"score": "additive", "inverse_temperature": 0.5}, ["softmax(0.5 × v · tanh(q + k))"]),
        ({"score": "bilinear", "selection": "straight_through"}, ["straight-through(q W k)"]),
        ({"positions": "rotary"}, ["q and k turned by position (rotary)"]),
        ({"positions": "alibi"}, ["score − slope × distance (ALiBi)"]),
        ({"positions": "relative"}, ["+ q · a[distance] (relative)"]),
        ({"positions": "relative_buckets"}, ["+ bias[bucket of distance]"]),
        ({"positions": "learned", "max_positions": 50}, ["50 × 16", "the table of the encoder"]),
        ({"positions": "sinusoidal_concatenated"}, ["all sines, then all cosines"]),
        ({"attention_window": 3, "global_tokens": 2}, ["window: ±3 positions, first 2 see all"]),
        ({"activation": "swiglu"}, ["swiglu, gated"]),
        ({"decoder_memory": "ssru"}, ["W, W_f: D × D = 16 × 16", "relu(f c + (1 − f) W x)"]),
    ],
)
def test_every_choice_is_named(choice: dict[str, Any], told: list[str]) -> None:
    outline = outline_of_config(config(**choice), "model")
    assert set(told) <= {size for part in parts(outline) for size in part.sizes}


@pytest.mark.seed("D15")
def test_cross_attention_has_neither_window_nor_positions() -> None:
    outline = outline_of_config(config(attention_window=3, positions="rotary"), "model")
    cross = outline.stacks[1].block[1]
    assert cross.reads_memory
    assert cross.part.sizes == ("4 heads × K = 4 × 4", "softmax(q · k / √4)", "mask: source padding")


@pytest.mark.seed("D15")
@pytest.mark.parametrize(
    ("placement", "order"),
    [
        (
            "pre",
            [
                "LayerNorm",
                "Self-attention",
                "+ what went in",
                "LayerNorm",
                "Feed-forward",
                "+ what went in",
                "LayerNorm",
            ],
        ),
        ("post", ["Self-attention", "+ what went in", "LayerNorm", "Feed-forward", "+ what went in", "LayerNorm"]),
    ],
)
def test_the_text_is_in_the_true_order(placement: str, order: list[str]) -> None:
    lines = outline_as_text(outline_of_config(config(norm_placement=placement, dropout=0.25), "model")).split("\n")
    first, last = next(i for i, line in enumerate(lines) if "block" in line), lines.index("", 2)
    inside = [line.split("  ")[0] for line in (line.strip() for line in lines[first + 1 : last - 1])]
    assert [name for name in inside if name in order] == order
    assert lines[0].startswith("model: ")
    assert lines[0].endswith(
        f"{placement}-norm: {'x + f(norm(x))' if placement == 'pre' else 'norm(x + f(x))'}, dropout 0.25"
    )


@pytest.mark.seed("D15")
def test_the_text_shows_every_count_and_a_stack_alone() -> None:
    outline = outline_of_config(config(), "model")
    shown = outline_as_text(outline)
    assert f"model: {outline.parameters:,} parameters" in shown
    for part in parts(outline):
        assert part.title in shown
        assert not part.parameters or f"{part.parameters:,}" in shown
    alone = outline_as_text(replace(outline, stacks=outline.stacks[:1]))
    assert "decoder" not in alone
    assert f"model: {outline.stacks[0].parameters:,} parameters" in alone


@pytest.mark.seed("D15")
def test_two_vocabularies_have_two_embeddings_of_which_one_is_the_output() -> None:
    outline = outline_of_config(config(vocab_size=30, target_vocab_size=20), "two")
    width = config().model_dim
    assert (outline.tied, outline.joint) == (True, False)
    assert [part.parameters for stack in outline.stacks for part in stack.below if part.kind == "embedding"] == [
        30 * width, 20 * width,
    ]  # fmt: skip
    assert next(part.parameters for part in outline.stacks[1].above if part.kind == "output") == 0
