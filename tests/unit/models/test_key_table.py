"""The table is read in both directions, and nothing is skipped."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.models.key_table import Row, layer, stacked, to_ours, to_theirs
from dikkat_runtime.errors import DataError

ROWS = [
    Row("embedding.weight", ("wte",)),
    *stacked([*layer("inner", "q", "k"), *layer("outer", "p", transposed=True)], "blocks", "h", layers=2),
]
SHAPES = {
    "embedding.weight": torch.Size([5, 3]),
    **{f"blocks.{n}.inner.weight": torch.Size([4, 3]) for n in range(2)},
    **{f"blocks.{n}.inner.bias": torch.Size([4]) for n in range(2)},
    **{f"blocks.{n}.outer.weight": torch.Size([3, 7]) for n in range(2)},
    **{f"blocks.{n}.outer.bias": torch.Size([3]) for n in range(2)},
}


def theirs() -> dict[str, Tensor]:
    weights = {"wte": torch.randn(5, 3)}
    for number in range(2):
        for part in ("q", "k"):
            weights |= {f"h.{number}.{part}.weight": torch.randn(2, 3), f"h.{number}.{part}.bias": torch.randn(2)}
        weights |= {f"h.{number}.p.weight": torch.randn(7, 3), f"h.{number}.p.bias": torch.randn(3)}
    return weights


def test_parts_stand_one_above_the_other_and_inputs_and_outputs_change_places() -> None:
    inputs = theirs()
    ours = to_ours(ROWS, inputs, SHAPES, "file")
    assert {name: tensor.shape for name, tensor in ours.items()} == SHAPES
    assert torch.equal(ours["blocks.1.inner.weight"][2:], inputs["h.1.k.weight"])
    assert torch.equal(ours["blocks.0.outer.weight"], inputs["h.0.p.weight"].T)


def test_there_and_back_is_the_same_bit_for_bit() -> None:
    inputs = theirs()
    again = to_theirs(ROWS, to_ours(ROWS, inputs, SHAPES, "file"))
    assert again.keys() == inputs.keys()
    assert all(torch.equal(again[name], inputs[name]) for name in inputs)


def test_half_precision_becomes_float32() -> None:
    inputs = {name: tensor.half() for name, tensor in theirs().items()}
    ours = to_ours(ROWS, inputs, SHAPES, "file")
    assert {tensor.dtype for tensor in ours.values()} == {torch.float32}
    assert torch.equal(ours["embedding.weight"].half(), inputs["wte"])


def test_a_weight_missing_left_over_or_of_another_shape_is_named() -> None:
    without = {name: tensor for name, tensor in theirs().items() if "p.bias" not in name}
    cases = [
        (without, r"^file: the weight h\.0\.p\.bias is missing, and 1 more$"),
        ({**theirs(), "extra": torch.zeros(1)}, "^file: this model has no weight extra$"),
        (
            {**theirs(), "wte": torch.zeros(6, 3)},
            "^file: the weight wte does not fit .*: its shape is 6 x 3, not 5 x 3$",
        ),
        (
            # parts may have as many rows as they like
            {**theirs(), "h.1.q.bias": torch.zeros(3)},
            r"^file: the weight h\.1\.q\.bias does not fit its config\.json: its shape is 5, not 4",
        ),
        (
            {**theirs(), "h.1.q.bias": torch.zeros(3, 2)},
            r"^file: the weights h\.1\.q\.bias, .* cannot be one matrix: 3 x 2, 2",
        ),
        (
            {**theirs(), "wte": torch.zeros(5, 3).long()},
            "^file: the weight wte is of the type int64, but",
        ),
    ]
    for inputs, message in cases:
        with pytest.raises(DataError, match=message):
            to_ours(ROWS, inputs, SHAPES, "file")
