"""Linear layers and attention over numpy arrays, against their formulas in float64."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest

from dikkat_runtime.engine.decoding import length_penalties
from dikkat_runtime.engine.products import DISTANCE_BUCKETS, GATED, Distances, activated, attend, linear
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import ALIGNMENT, Array, address, full, side_by_side
from dikkat_runtime.native.library import library

SHAPES = [(1, 3, 5), (1, 40, 200), (7, 16, 64), (23, 40, 33), (24, 48, 96), (300, 21, 70)]
"""Rows, inputs, outputs: few and many rows, odd widths, more rows than a thread takes at once."""


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rounded(x: Array) -> Array:
    """Rows in eight bits, each by a scale of its own; what they stand for, in float64."""
    scale = np.abs(x).max(axis=1, keepdims=True).astype(np.float64) / 127
    return np.rint(x / scale) * scale


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [*SHAPES, (1, 300, 130), (5, 3, 5), (5, 300, 130)])
@pytest.mark.parametrize("in_bytes", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_linear_layer_is_its_formula(rows: int, inputs: int, outputs: int, in_bytes: bool, with_bias: bool) -> None:
    x, weight, bias = drawn(rows, inputs), drawn(outputs, inputs, seed=1), drawn(outputs, seed=2)
    weights = Weights({"a.weight": weight} | ({"a.bias": bias} if with_bias else {}), "here", in_bytes, 1)
    result = linear(weights.linear("a", outputs, inputs), x, threads=1)
    factors = (rounded(x), rounded(weight)) if in_bytes else (x.astype(np.float64), weight)
    expected = factors[0] @ factors[1].T + (bias if with_bias else 0)
    # half a step of rounding where a number lies between two of eight bits
    np.testing.assert_allclose(result, expected, rtol=0, atol=0.06 if in_bytes else 1e-5)


@pytest.mark.parametrize("in_bytes", [False, True])
def test_a_row_has_the_same_bits_in_any_company_and_by_any_number_of_threads(in_bytes: bool) -> None:
    x, weight = drawn(600, 40), drawn(130, 40, seed=1)
    layer = (weights := Weights({"a.weight": weight}, "here", in_bytes, 1)).linear("a", 130, 40)
    together = linear(layer, x, threads=1)
    for threads in (2, 3, 7):
        assert np.array_equal(linear(layer, x, threads), together)
    for row in (0, 599):
        assert np.array_equal(linear(layer, x[row : row + 1], threads=1), together[row : row + 1])
    for start, end in ((0, 1), (0, 5), (5, 30), (100, 600)):
        assert np.array_equal(linear(layer, x[start:end], 2), together[start:end])
    assert weights.has("a.weight")


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [*SHAPES, (3, 1, 32), (17, 2, 31), (40, 300, 130)])
def test_a_layer_in_parts_is_its_formula_and_a_row_has_the_same_bits_in_any_company(
    rows: int, inputs: int, outputs: int
) -> None:
    """A number is the sum of three parts of bfloat16; what is left out of a product is what float32 rounds, too."""
    x, weight, bias = drawn(rows, inputs), drawn(outputs, inputs, seed=1), drawn(outputs, seed=2)
    weights = Weights({"a.weight": weight, "a.bias": bias}, "here", False, 1)
    layer = weights.linear("a", outputs, inputs)
    size = library()[0].split_bytes(ctypes.byref(layer), 1)
    if not size:
        pytest.skip("needs a processor with tiles for bfloat16")
    parts = full((size,), 255, np.uint8)
    library()[0].split_weights(ctypes.byref(layer), 1, address(parts))
    result, exact = linear(layer, x, threads=1), x.astype(np.float64) @ weight.T + bias
    magnitudes = np.abs(x).astype(np.float64) @ np.abs(weight).T + np.abs(bias)
    assert (np.abs(result - exact) / magnitudes).max() < 5e-7
    for threads in (2, 3):
        np.testing.assert_array_equal(linear(layer, x, threads), result)
    for start, end in {(0, 1), (rows - 1, rows), (rows // 3, rows)}:
        np.testing.assert_array_equal(linear(layer, x[start:end], 1), result[start:end])


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 6, 13, 62, 495])
def test_products_of_the_largest_bytes_are_exact(rows: int) -> None:
    chance = np.random.default_rng(1)
    signs = chance.choice([-127.0, 127.0], (rows + 70, 520)).astype(np.float32)
    # whole numbers whose largest is 127 are what they are rounded to
    some = chance.integers(-127, 128, (rows + 70, 520)).astype(np.float32)
    some[:, 7] = 127
    for numbers in (signs, np.full_like(signs, 127), some):
        x, weight = numbers[:rows], numbers[rows:]
        # the layer reads what the weights keep
        weights = Weights({"a.weight": weight}, "here", True, 1)
        result = linear(weights.linear("a", 70, 520), x, threads=1)
        assert np.array_equal(result, (x.astype(np.int64) @ weight.astype(np.int64).T).astype(np.float32))


def whole_numbers(rows: Array, largest: int = 127) -> tuple[Array, Array]:
    """Rows (N, M) of whole numbers up to `largest`, and the scales (N, 1) of the rows, in float32."""
    scales = np.abs(rows).max(1, keepdims=True) / np.float32(127)
    times = np.float32(largest / 127)
    return np.rint(rows * (np.float32(1) / scales * times)).astype(np.float64), scales / times


def low_rank_in_bytes(x: Array, down: Array, up: Array) -> Array:
    """What factors in eight bits add: rows, ranks of both and what is between them are rounded, all sums are exact."""
    (ups, up_scales), (downs, down_scales) = (
        (np.rint(rows / scales), scales)
        for rows in (up.T, down)
        for scales in (np.abs(rows).max(1, keepdims=True) / np.float32(127),)
    )
    entries, scales = whole_numbers(x)
    low = (entries @ downs.T).astype(np.float32) * (scales * (down_scales * up_scales).T)
    entries, scales = whole_numbers(low, 127 << 5)
    product: Array = (entries @ ups).astype(np.float32) * scales
    return product


@pytest.mark.parametrize("rank", [1, 5, 16, 40])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("in_bytes", [False, True])
def test_an_adapter_adds_the_product_of_its_factors_and_takes_nothing_of_the_base_twice(
    rows: int, inputs: int, outputs: int, in_bytes: bool, rank: int
) -> None:
    x, weight = drawn(rows, inputs), drawn(outputs, inputs, seed=1)
    up, down = drawn(outputs, rank, seed=2), drawn(rank, inputs, seed=3)
    base = Weights({"a.weight": weight}, "here", in_bytes, 1)
    plain = linear(base.linear("a", outputs, inputs), x, threads=1)
    adapter = Weights({"a.weight:up": up, "a.weight:down": down}, "there", in_bytes, 1, base=base)
    layer = adapter.linear("a", outputs, inputs)
    result = linear(layer, x, threads=2)
    if in_bytes:
        change, exact = low_rank_in_bytes(x, down, up), (x @ down.T) @ up.T
        assert np.linalg.norm(change - exact) < 0.03 * np.linalg.norm(exact)
    else:
        change = (x.astype(np.float64) @ down.T) @ up.T
    np.testing.assert_allclose(result, plain + change, rtol=1e-5, atol=1e-3)
    for start, end in ((0, 1), (0, 2), (1, 3), (0, 7)):
        assert np.array_equal(linear(layer, x[start:end], threads=1), result[start:end]), "the same bits in any company"
    assert np.array_equal(linear(layer, x[-1:], threads=1)[0], result[-1])
    half = slice(outputs // 2, None)
    alone = linear(adapter.linear("a", outputs, inputs, half), x, threads=1)
    np.testing.assert_allclose(alone, result[:, half], rtol=1e-5, atol=1e-3)
    size = (1 if in_bytes else 4) * (rank + 8) * (inputs + 16 + 2 * outputs + 2 * 64)
    assert sum(array.nbytes for array in adapter._kept) < size + (rank + 8) * (inputs + 16) * 4
    adapter.check_all_used()


GROUP = 32
"""Inputs that share a scale."""


def bfloat16(x: Array) -> Array:
    bits = x.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32).astype(np.float64)


def in_groups(x: Array, rounding: Callable[[Array], Array]) -> Array:
    """What rows stand for of which each group is rounded by itself, the last of fewer inputs too."""
    starts = range(0, x.shape[1], GROUP)
    return np.concatenate([rounding(x[:, start : start + GROUP].astype(np.float64)) for start in starts], axis=1)


def from_zero(group: Array) -> Array:
    scale = np.abs(group).max(axis=1, keepdims=True) / 127
    return np.rint(group / scale) * scale


def from_least(group: Array) -> Array:
    lowest = group.min(axis=1, keepdims=True)
    scale = (group.max(axis=1, keepdims=True) - lowest) / 255
    return np.rint((group - lowest) / np.maximum(scale, 1e-30)) * scale + lowest


def in_halves(group: Array) -> Array:
    """Weights of four bits: sixteen steps from the least, whose ends are bfloat16."""
    lowest, largest = group.min(axis=1, keepdims=True), group.max(axis=1, keepdims=True)
    scale, least = bfloat16((largest - lowest) / 15), bfloat16(lowest)
    return np.clip(np.rint((group - least) / np.maximum(scale, 1e-30)), 0, 15) * scale + least


def around_mean(group: Array) -> Array:
    """Weights of eight bits: whole steps from the mean that add up to 0, by rounding the nearest ones the other way."""
    mean = group.mean(axis=1, keepdims=True)
    scale = bfloat16(np.abs(group - mean).max(axis=1, keepdims=True) / 126)
    steps = (group - mean) / scale
    whole = np.rint(steps)
    for row, exact in zip(whole, steps, strict=True):
        while total := row.sum():
            row[np.argmax((row - exact) * np.sign(total))] -= np.sign(total)
    return whole * scale + bfloat16(mean)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("bits", [8, 4])
def test_a_layer_in_groups_is_its_formula(rows: int, inputs: int, outputs: int, bits: int) -> None:
    x, weight, bias = drawn(rows, inputs), drawn(outputs, inputs, seed=1), drawn(outputs, seed=2)
    weights = Weights({"a.weight": weight, "a.bias": bias}, "here", True, 1, bits)
    result = linear(weights.layer("a", outputs, inputs), x, threads=2)
    activations, of_weights = (from_least, around_mean) if bits == 8 else (from_zero, in_halves)
    expected = in_groups(x, activations) @ in_groups(weight, of_weights).T + bias
    # a number between two steps goes to either
    np.testing.assert_allclose(result, expected, rtol=0, atol=0.06)
    assert np.abs(result - expected).mean() < 1e-3


def test_weights_whose_distance_is_no_number_are_rounded_in_finite_time() -> None:
    weight = np.full((4, 40), -3.4e38, np.float32)
    weight[:, 0] = 3.4e38
    weights = Weights({"a.weight": weight}, "here", True, 1, 8)
    assert not np.isfinite(linear(weights.layer("a", 4, 40), drawn(2, 40), threads=1)).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_a_row_in_groups_has_the_same_bits_in_any_company(bits: int) -> None:
    x, weight = drawn(200, 40), drawn(130, 40, seed=1)
    layer = (weights := Weights({"a.weight": weight}, "here", True, 1, bits)).layer("a", 130, 40)
    together = linear(layer, x, threads=1)
    assert np.array_equal(linear(layer, x, 3), together)
    for start, end in ((0, 1), (199, 200), (5, 7), (94, 199)):
        assert np.array_equal(linear(layer, x[start:end], 2), together[start:end])
    assert weights.has("a.weight")


def test_a_large_activation_costs_its_own_group_alone() -> None:
    x, weight = drawn(8, 64), drawn(40, 64, seed=1)
    weight[:, :GROUP], x[:, 0] = 0, 1e4
    exact = x.astype(np.float64) @ weight.T
    weights = Weights({"a.weight": weight}, "here", True, 1, 8)
    assert np.abs(linear(weights.layer("a", 40, 64), x, threads=1) - exact).max() < 0.2
    assert np.abs(linear(weights.linear("a", 40, 64), x, threads=1)).max() == 0, "by one scale a row, all else is lost"


FORMULAS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("name", [*FORMULAS, *GATED])
def test_a_non_linearity_is_its_formula(name: str) -> None:
    x = (4 * drawn(3, 40, 34)).astype(np.float32)
    wide = x.astype(np.float64)
    expected = FORMULAS[GATED[name]](wide[..., :17]) * wide[..., 17:] if name in GATED else FORMULAS[name](wide)
    np.testing.assert_allclose(activated(name, x, threads=2), expected, rtol=1e-6, atol=3e-6)
    assert np.isnan(activated("gelu", np.full((1, 3), np.nan), threads=1)).all()


@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (9, 9), (40, 130)])
def test_attention_is_its_formula(queries: int, keys: int) -> None:
    query, key, value = drawn(2, 3, queries, 20), drawn(2, 3, keys, 20, seed=1), drawn(2, 3, keys, 20, seed=2)
    mask = np.random.default_rng(3).random((2, 1, queries, keys)) < 0.7
    mask[1, 0, 0] = False
    scores = np.where(mask, 0.3 * (query.astype(np.float64) @ key.swapaxes(2, 3)), -np.inf)
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = np.nan_to_num(shares / np.maximum(np.nan_to_num(shares).sum(axis=-1, keepdims=True), 1e-30))
    expected = (shares @ value).swapaxes(1, 2).reshape(2, queries, 60)
    result = attend(query, key, value, mask, 0.3, threads=2)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6)
    assert not result[1, 0].any(), "who may attend to nothing gets zero"


def test_padding_and_the_layout_of_heads_change_not_a_bit() -> None:
    joined = drawn(2, 9, 3 * 60)
    query, key, value = (item.reshape(2, 9, 3, 20).swapaxes(1, 2) for item in np.split(joined, 3, axis=-1))
    mask = np.ones((2, 1, 1, 9), bool)
    mask[1, 0, 0, 6:] = False
    result = attend(query, key, value, mask, 0.3, 1)
    query, key, value = (np.ascontiguousarray(item[1:, :, :6]) for item in (query, key, value))
    alone = attend(query, key, value, np.ones((1, 1, 1, 6), bool), 0.3, 1)
    assert np.array_equal(result[1, :6], alone[0])


@pytest.mark.parametrize("shape", [(3,), (2, 0, 4), (1, 5, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_memory_for_kernels_is_aligned_and_its_address_is_that_of_its_first_entry(
    shape: tuple[int, ...], dtype: type
) -> None:
    array = full(shape, 3, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert (array == 3).all()
    assert address(array) == array.ctypes.data
    assert array.ctypes.data % ALIGNMENT == 0


def test_arrays_side_by_side_are_aligned_and_share_no_byte() -> None:
    arrays = side_by_side(7, np.int64, first=(3,), second=(2, 0, 4), third=(1, 5, 7))
    for array, shape in zip(arrays.values(), ((3,), (2, 0, 4), (1, 5, 7)), strict=True):
        assert array.shape == shape
        assert (array == 7).all()
        assert array.ctypes.data % ALIGNMENT == 0
        array[...] = 1
        assert sum(int((other == 1).sum()) for other in arrays.values()) == array.size
        array[...] = 7


def test_the_address_of_what_no_kernel_may_change_is_found_too() -> None:
    frozen, columns = np.arange(6.0), np.zeros((4, 4))[:, 1:3]
    frozen.flags.writeable = False
    assert address(frozen) == frozen.ctypes.data
    assert address(columns) == columns.ctypes.data
    assert address(None) is None


def test_penalties_that_many_searches_share_cannot_be_changed() -> None:
    penalties = length_penalties(4, 0.5, 1)
    assert penalties is length_penalties(4, 0.5, 1)
    np.testing.assert_allclose(penalties, [1, *(length**0.5 for length in (2, 3, 4, 5))], rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        penalties[0] = 2.0


def bucket(away: int, is_causal: bool) -> int:
    """The bucket of a key `away` positions after the query (Raffel et al. 2020, section 2.1), by its borders."""
    half = DISTANCE_BUCKETS if is_causal else DISTANCE_BUCKETS // 2
    size, exact = max(-away, 0) if is_causal else abs(away), half // 2
    first = half if away > 0 and not is_causal else 0
    if size < exact:
        return first + size
    # bucket exact + n begins at exact * (128 / exact)^(n / (half - exact))
    begun = [n for n in range(half - exact) if size >= exact * (128 / exact) ** (n / (half - exact)) - 1e-9]
    return first + exact + begun[-1]


@pytest.mark.parametrize(("queries", "keys"), [(300, 300), (1, 40), (37, 150)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_buckets_of_distances_are_added_to_scores(queries: int, keys: int, is_causal: bool) -> None:
    query, key, value = drawn(2, 3, queries, 10), drawn(2, 3, keys, 10, seed=1), drawn(2, 3, keys, 10, seed=2)
    table, mask = drawn(DISTANCE_BUCKETS, 3, seed=3), np.tri(queries, keys, keys - queries, dtype=bool)
    mask = mask if is_causal else np.ones_like(mask)
    result = attend(query, key, value, mask, 0.4, 2, Distances(table, is_causal=is_causal))
    away = np.arange(keys) - np.arange(keys - queries, keys)[:, None]
    rows = np.vectorize(lambda one: bucket(int(one), is_causal))(away)
    scores = 0.4 * (query.astype(np.float64) @ key.swapaxes(2, 3)) + table[rows].transpose(2, 0, 1)
    np.testing.assert_allclose(result, joined(scores, mask, value), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("span", "reach"), [(4, 0), (8, 20), (16, 512)])
def test_vectors_of_distances_are_multiplied_with_queries_and_keys(span: int, reach: int) -> None:
    """He et al. (2021, section 3.1); far distances share vectors by the formula of DeBERTa's code."""
    length, width = 130, 12
    query, key, value = (drawn(2, 3, length, width, seed=seed) for seed in range(3))
    of_query, of_key = drawn(3, 2 * span, width, seed=4), drawn(3, 2 * span, width, seed=5)
    mask = np.arange(length) < np.array([length, 50])[:, None]
    result = attend(query, key, value, mask[:, None, None], 0.3, 2, Distances(None, (of_query, of_key), reach))
    away, middle = np.arange(length)[:, None] - np.arange(length), span // 2
    size = np.abs(away)
    far = np.log(np.maximum(size, middle) / middle) / math.log(max(reach - 1, span) / middle) * (middle - 1)
    far = (np.ceil(far - 1e-9) + middle) * np.sign(away)
    away = np.where((size > middle) & (reach > 0), far, away).astype(int)
    rows = np.clip(away + span, 0, 2 * span - 1)
    # row t, column s: query t with the vector of their distance, and key s with its own
    added = np.einsum("bhtk,htsk->bhts", query, of_query[:, rows]) + np.einsum("bhsk,htsk->bhts", key, of_key[:, rows])
    scores = 0.3 * (query.astype(np.float64) @ key.swapaxes(2, 3) + added)
    np.testing.assert_allclose(result, joined(scores, mask[:, None, None], value), rtol=0, atol=1e-5)


def joined(scores: Array, mask: Array, value: Array) -> Array:
    """The softmax of scores in float64, times the values, with the heads side by side."""
    powers = np.exp(np.where(mask, scores, -np.inf))
    output = powers / powers.sum(axis=-1, keepdims=True) @ value
    return output.swapaxes(1, 2).reshape(*output.shape[:1], output.shape[2], -1)
