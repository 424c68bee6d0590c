"""The parts of the browser engine by their formulas in float64: activations, norms, positions, attention, choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.browser_engine import in_node

from dikkat.run_directory.tensor_files import FINE_STEPS

Matrix = NDArray[np.float64]
HEADS, GROUPS, WIDTH, QUERIES, KEYS = 4, 2, 3, 3, 5
CODE = """
const floats = (numbers) => Float32Array.from(numbers);
const named = (weight, bias) => new Map([
  ["n.weight", { values: floats(weight) }], ["n.bias", { values: floats(bias) }],
]);
const activations = ["relu", "gelu", "gelu_tanh", "geglu", "swiglu"];
const found = { activated: {}, positions: {} };
for (const name of activations) found.activated[name] = Array.from(engine.activated(floats(input.x), 2, name));
for (const norm of ["layer", "rms"]) {
  const layer = new engine.Norm(named(input.weight, input.bias), "n", { norm, norm_eps: 0.01 });
  found[norm] = Array.from(layer.run(floats(input.x)));
}
for (const layout of [false, true]) {
  found.positions[layout] = [0, 1, 7].map((at) => Array.from(engine.sinusoid(at, 6, layout)));
}
found.odd = Array.from(engine.sinusoid(3, 5, false));
const turned = floats(input.rotated);
engine.applyRotary(turned, 0, 2, 4, 5);
found.rotated = Array.from(turned);
const { query, keys, values, heads, groups, width, queries, count, mask } = input;
const weights = new Float32Array(heads * queries * count);
found.attended = Array.from(engine.attend({
  query: floats(query), keys: floats(keys), values: floats(values), queries, count, heads, groups, width, beta: 0.7,
  visible: (t) => t + 3, mask, off: new Set([1]), weights,
}));
found.weights = Array.from(weights);
found.bf16 = Array.from(engine.roundToBf16(floats(input.bf16)));
found.top = engine.topOf(floats([1, 5, 3, 5, -2, 3]), 4);
found.chosen = engine.distribution(floats(input.logits), { temperature: 0.5, topK: 4, topP: 0.8 });
found.greedy = engine.distribution(floats(input.logits), { temperature: 0 });
const choices = [[0.25, 7], [0.5, 8], [0.25, 9]];
found.drawn = [0, 0.2499, 0.25, 0.75, 0.9999, 1].map((uniform) => engine.drawn(choices, uniform));
found.fineSteps = engine.FINE_STEPS;
const steps = new Int8Array(7);
found.quantized = [engine.quantizeRow(steps, floats([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5])), Array.from(steps)];
found.caps = [1, 2, 30].map(engine.lengthCap);
const cache = new engine.Cache(1, 2);
for (let row = 0; row < 40; row++) { cache.append(0, floats([row, -row]), floats([2 * row, 1])); cache.length++; }
const copy = cache.copy();
copy.append(0, floats([40, -40]), floats([80, 1]));
cache.append(0, floats([99, 99]), floats([99, 99]));
found.cached = [Array.from(copy.layers[0].keys.subarray(0, 82)), Array.from(copy.layers[0].values.subarray(0, 82))];
found.lowered = ["DIŞ KAPI", "İSTANBUL", "I\\u0307Z"].map(engine.lowerDotted);
return found;
"""


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    draw = np.random.default_rng(1)

    def normal(*shape: int) -> list[float]:
        return draw.normal(size=math.prod(shape)).astype(np.float32).tolist()

    return {
        "x": normal(2, 6), "weight": normal(6), "bias": normal(6), "rotated": normal(8),
        "logits": [0.1, 1.0, 0.9, -0.5, 0.8, -1.0, 0.0, 0.2, 0.3],
        "query": normal(QUERIES, HEADS, WIDTH), "keys": normal(KEYS, GROUPS, WIDTH),
        "values": normal(KEYS, GROUPS, WIDTH), "mask": [1, 0, 1, 1, 1],
        "heads": HEADS, "groups": GROUPS, "width": WIDTH, "queries": QUERIES, "count": KEYS,
        "bf16": [1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.14159, 0.0],
    }  # fmt: skip


@pytest.fixture(scope="module")
def found(given: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    answer: dict[str, Any] = in_node(tmp_path_factory.mktemp("node"), CODE, given)
    return answer


def gelu(x: Matrix) -> Matrix:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def near(found: Any, expected: Any, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(np.array(found, np.float64), np.ravel(expected), rtol=tolerance, atol=tolerance)


def test_activations(given: dict[str, Any], found: dict[str, Any]) -> None:
    x = np.array(given["x"])
    gate, content = x.reshape(2, 6)[:, :3], x.reshape(2, 6)[:, 3:]
    near(found["activated"]["relu"], np.maximum(x, 0))
    near(found["activated"]["gelu"], gelu(x))
    approximate = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    near(found["activated"]["gelu_tanh"], approximate)
    assert np.abs(approximate - gelu(x)).max() > 1e-5, "the two differ by more than the tolerance"
    near(found["activated"]["geglu"], gelu(gate) * content)
    near(found["activated"]["swiglu"], gate / (1 + np.exp(-gate)) * content)


def test_norms(given: dict[str, Any], found: dict[str, Any]) -> None:
    x, weight, bias = np.array(given["x"]).reshape(2, 6), np.array(given["weight"]), np.array(given["bias"])
    centred = x - x.mean(1, keepdims=True)
    near(found["layer"], centred / np.sqrt((centred**2).mean(1, keepdims=True) + 0.01) * weight + bias)
    near(found["rms"], x / np.sqrt((x**2).mean(1, keepdims=True) + 0.01) * weight)


def test_positions(given: dict[str, Any], found: dict[str, Any]) -> None:
    for row, at in zip(found["positions"]["false"], (0, 1, 7), strict=True):
        angles = [at / 10000 ** (2 * pair / 6) for pair in range(3)]
        near(row, [part(angle) for angle in angles for part in (math.sin, math.cos)])
    for row, at in zip(found["positions"]["true"], (0, 1, 7), strict=True):
        angles = [at / 10000 ** (pair / 2) for pair in range(3)]
        near(row, [*map(math.sin, angles), *map(math.cos, angles)])
    angles = [3 / 10000 ** (2 * pair / 5) for pair in range(3)]
    near(found["odd"], [part(angle) for angle in angles for part in (math.sin, math.cos)][:5])
    pairs = np.array(given["rotated"]).reshape(2, 2, 2)
    turns = np.exp(1j * 5 / 10000 ** (np.arange(2) / 2))
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turns
    near(found["rotated"], np.stack((turned.real, turned.imag), axis=-1))


def test_attention_of_groups_of_heads(given: dict[str, Any], found: dict[str, Any]) -> None:
    query = np.array(given["query"]).reshape(QUERIES, HEADS, WIDTH)
    keys, values = (np.array(given[name]).reshape(KEYS, GROUPS, WIDTH) for name in ("keys", "values"))
    seen = np.array(given["mask"], bool) & (np.arange(KEYS) < np.arange(QUERIES)[:, None] + 3)
    output, weights = np.zeros((QUERIES, HEADS, WIDTH)), np.zeros((HEADS, QUERIES, KEYS))
    for head in range(HEADS):
        group = head // (HEADS // GROUPS)
        powers = np.where(seen, np.exp(0.7 * query[:, head] @ keys[:, group].T), 0)
        weights[head] = powers / powers.sum(1, keepdims=True)
        # the second head is off: its map is there, its output is not
        output[:, head] = 0 if head == 1 else weights[head] @ values[:, group]
    near(found["weights"], weights)
    near(found["attended"], output)


def test_bfloat16_rounds_halves_to_the_even_number(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert found["bf16"][:4] == [1.0, 1.0, 1 + 2**-6, 1 + 2**-7]
    assert found["bf16"][4] == -3.140625
    assert found["bf16"][5] == 0.0


def test_the_largest_and_what_is_drawn_of_them(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert found["top"] == [[5, 1], [5, 3], [3, 2], [3, 5]]
    logits = np.array(given["logits"])
    order = np.argsort(-logits, kind="stable")[:4]
    shares = np.exp(logits[order] / 0.5)
    shares /= shares.sum()
    kept = int(np.searchsorted(shares.cumsum(), 0.8)) + 1
    assert 1 < kept < 4, "top-p leaves some of them out"
    assert [number for _, number in found["chosen"]] == order[:kept].tolist()
    near([share for share, _ in found["chosen"]], shares[:kept] / shares[:kept].sum())
    assert found["greedy"] == [[1, int(order[0])]]
    assert found["drawn"] == [7, 7, 8, 9, 9, 9]
    assert found["caps"] == [12, 14, 70]


def test_a_cache_grows_and_its_copy_is_its_own(found: dict[str, Any]) -> None:
    rows = range(41)
    assert found["cached"][0] == [number for row in rows for number in (row, -row)]
    assert found["cached"][1] == [number for row in rows for number in (2 * row, 1)]


def test_capital_i_of_turkish(found: dict[str, Any]) -> None:
    assert found["lowered"] == ["dış kapı", "istanbul", "iz"]


def test_activations_are_rounded_to_steps_halves_to_the_even_one(found: dict[str, Any]) -> None:
    assert found["quantized"] == [1, [127, 0, 2, 2, 0, -2, -2]]


def test_a_step_has_as_many_parts_as_the_file_is_written_with(found: dict[str, Any]) -> None:
    assert found["fineSteps"] == FINE_STEPS
