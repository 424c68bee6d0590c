"""The maps of one sentence: which there are, how they are chosen, and their mean."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap, Kind, SentenceMaps, Stack, axes_of, map_key, mean_of_heads
from dikkat_runtime.errors import UsageError

READS, WRITES = ("▁A", "▁dog", "<eos>"), ("<bos>", "▁Ein")


def maps_of(stack: Stack, kind: Kind, layers: list[int], heads: list[int | None]) -> list[AttentionMap]:
    queries, keys = axes_of(stack, kind, READS, WRITES)
    generator = np.random.default_rng(3)
    return [
        AttentionMap(
            generator.dirichlet(np.ones(len(keys)), len(queries)).astype(np.float32),
            *(queries, keys, stack, layer, head, kind),
        )
        for layer in layers
        for head in heads
    ]


@pytest.fixture
def found() -> SentenceMaps:
    """Two encoder layers and three decoder layers of two heads, not in order."""
    maps = [*maps_of("decoder", "cross", [2, 0, 1], [1, 0]), *maps_of("encoder", "self", [0, 1], [0, 1])]
    return SentenceMaps("A dog", "Ein", READS, WRITES, tuple(maps))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (("encoder", "self"), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (("decoder", "cross"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        (("decoder", "cross", 2), [(2, 0), (2, 1)]),
        (("decoder", "cross", 0, 1), [(0, 1)]),
        (("encoder", "self", None, 0), [(0, 0), (1, 0)]),
    ],
)
def test_maps_are_chosen_in_order(found: SentenceMaps, choice: Any, expected: list[tuple[int, int]]) -> None:
    chosen = found.select(*choice)
    assert [(item.layer, item.head) for item in chosen] == expected
    assert {(item.stack, item.kind) for item in chosen} == {choice[:2]}
    assert all(any(item is one for one in found.maps) for item in chosen)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (("decoder", "cross", 3), "there is no layer 4 in the cross-attention: choose from 1 to 3"),
        (("decoder", "cross", -1), "there is no layer 0 in the cross-attention: choose from 1 to 3"),
        (("encoder", "self", 2), "there is no layer 3 in the encoder self-attention: choose from 1, 2"),
        (("encoder", "self", 0, 2), "there is no head 3 in the encoder self-attention: choose from 1, 2"),
        (("decoder", "self"), "there is no decoder self-attention here; choose from cross-attention, encoder self-"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(found: SentenceMaps, choice: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        found.select(*choice)


def test_a_model_without_cross_attention_says_so() -> None:
    found = SentenceMaps("A dog", "", READS, (), tuple(maps_of("encoder", "self", [0], [0])))
    with pytest.raises(UsageError, match=r"^there is no cross-attention here; choose from encoder self-attention$"):
        found.select("decoder", "cross")


def test_of_means_no_head_can_be_chosen() -> None:
    found = SentenceMaps("A dog", "Ein", READS, WRITES, tuple(maps_of("decoder", "cross", [0], [None])))
    assert [map_key(item) for item in found.select("decoder", "cross")] == [("decoder", "cross", 0, None)]
    with pytest.raises(UsageError, match=r"there is no head 1 in the cross-attention: .*only the mean of heads"):
        found.select("decoder", "cross", 0, 0)


def test_no_maps_at_all() -> None:
    with pytest.raises(UsageError, match="choose from nothing: no map was recorded"):
        SentenceMaps("A dog", "Ein", READS, WRITES, ()).select("encoder", "self")


@pytest.mark.parametrize(
    ("stack", "kind", "expected"),
    [("encoder", "self", "ss"), ("decoder", "self", "oo"), ("decoder", "cross", "os")],
)
def test_axes(stack: Stack, kind: Kind, expected: str) -> None:
    assert "".join(axes_of(stack, kind, "s", "o")) == expected


def test_the_mean_of_heads(found: SentenceMaps) -> None:
    first, second = found.select("decoder", "cross", 1)
    mean = mean_of_heads([first, second])
    np.testing.assert_allclose(mean.weights, (first.weights.astype(np.float64) + second.weights) / 2, rtol=0, atol=1e-7)
    assert map_key(mean) == ("decoder", "cross", 1, None)
    assert (mean.query_tokens, mean.key_tokens) == (WRITES, READS)
    with pytest.raises(ValueError, match="no attention map to take the mean of"):
        mean_of_heads([])
