"""The arithmetic of one cell against the numbers of the textbooks, numpy, and itself turned around."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dikkat.explain.trace import Cell, Trace, find_query, trace_cell
from dikkat.explain.word_vectors import known_vectors
from dikkat_runtime.errors import UsageError

PRINTED = 5e-5  # four decimals


def hello(query: str = "shiny", beta: float = 1.0) -> Trace:
    return trace_cell(known_vectors("Hello shiny sun!").cell(query, beta))


def journey(query: str) -> Trace:
    return trace_cell(known_vectors("Your journey starts with one step").cell(query))


@pytest.mark.seed("B3")
def test_scores_of_shiny() -> None:
    trace = hello()
    assert_allclose(trace.scores, [0.7842, 1.3569, 1.2487], rtol=0, atol=PRINTED)
    assert_allclose(trace.terms[0], [0.53 * 0.34, 0.34 * 0.22, 0.98 * 0.54], rtol=1e-12)


@pytest.mark.seed("B4")
def test_softmax_by_hand() -> None:
    trace = hello()
    assert_allclose(trace.exponentials, [2.1907, 3.8841, 3.4858], rtol=0, atol=PRINTED)
    assert trace.exponential_sum == pytest.approx(9.5606, abs=PRINTED)
    assert_allclose(trace.weights, [0.2291, 0.4063, 0.3646], rtol=0, atol=PRINTED)


@pytest.mark.seed("B5")
def test_context_vector_by_hand() -> None:
    trace = hello()
    rows = [[0.0779, 0.0504, 0.1237], [0.2153, 0.1381, 0.3981], [0.1057, 0.1969, 0.3391]]
    assert_allclose(trace.weighted, rows, rtol=0, atol=PRINTED)
    assert_allclose(trace.total, [0.398960, 0.385424, 0.860951], rtol=0, atol=5e-7)


@pytest.mark.seed("F16")
def test_addends_of_the_seed_are_wrong_in_the_fourth_decimal() -> None:
    """Seed 001:106 adds .2156, .1382, .3983, .1972, .3390 and prints [.3992, .3858, .8610]."""
    trace = hello()
    seed = np.array([[0.0779, 0.0504, 0.1237], [0.2156, 0.1382, 0.3983], [0.1057, 0.1972, 0.3390]])
    wrong = np.abs(seed - trace.weighted) > PRINTED
    assert seed[wrong].tolist() == [0.2156, 0.1382, 0.3983, 0.1972, 0.3390]
    assert_allclose(seed.sum(axis=0), [0.3992, 0.3858, 0.8610], rtol=0, atol=1e-9)
    assert (np.abs(seed.sum(axis=0) - trace.total)[:2] > 2 * PRINTED).all()
    assert_allclose(trace.total, [0.3990, 0.3854, 0.8610], rtol=0, atol=PRINTED)


@pytest.mark.seed("B6")
@pytest.mark.parametrize(
    ("query", "beta", "weights", "context"),
    [
        ("Hello", 1.0, [0.2709, 0.3763, 0.3528], [0.3939, 0.3780, 0.8432]),
        ("sun", 1.0, [0.2283, 0.3874, 0.3843], [0.3944, 0.3895, 0.8604]),
        ("shiny", 3**-0.5, [0.2703, 0.3762, 0.3535], [0.3938, 0.3783, 0.8434]),
    ],
)
def test_the_other_rows_and_the_scaled_variant(
    query: str, beta: float, weights: list[float], context: list[float]
) -> None:
    trace = hello(query, beta)
    assert_allclose(trace.weights, weights, rtol=0, atol=PRINTED)
    assert_allclose(trace.total, context, rtol=0, atol=PRINTED)


@pytest.mark.seed("B7")
def test_your_journey_starts_with_one_step() -> None:
    trace = journey("journey")
    assert trace.cell.query_number == 2
    assert_allclose(trace.scores, [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865], rtol=0, atol=PRINTED)
    shares = trace.scores / trace.scores.sum()
    assert_allclose(shares, [0.1455, 0.2278, 0.2249, 0.1285, 0.1077, 0.1656], rtol=0, atol=PRINTED)
    assert_allclose(trace.weights, [0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581], rtol=0, atol=PRINTED)
    assert_allclose(trace.total, [0.4419, 0.6515, 0.5683], rtol=0, atol=PRINTED)


B08 = {
    "Your": ([0.9995, 0.9544, 0.9422, 0.4753, 0.4576, 0.6310], [0.2098, 0.2006, 0.1981, 0.1242, 0.1220, 0.1452],
             [0.4421, 0.5931, 0.5790]),
    "journey": ([0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865], [0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581],
                [0.4419, 0.6515, 0.5683]),
    "starts": ([0.9422, 1.4754, 1.4570, 0.8296, 0.7154, 1.0605], [0.1390, 0.2369, 0.2326, 0.1242, 0.1108, 0.1565],
               [0.4431, 0.6496, 0.5671]),
    "with": ([0.4753, 0.8434, 0.8296, 0.4937, 0.3474, 0.6565], [0.1435, 0.2074, 0.2046, 0.1462, 0.1263, 0.1720],
             [0.4304, 0.6298, 0.5510]),
    "one": ([0.4576, 0.7070, 0.7154, 0.3474, 0.6654, 0.2935], [0.1526, 0.1958, 0.1975, 0.1367, 0.1879, 0.1295],
            [0.4671, 0.5910, 0.5266]),
    "step": ([0.6310, 1.0865, 1.0605, 0.6565, 0.2935, 0.9450], [0.1385, 0.2184, 0.2128, 0.1420, 0.0988, 0.1896],
             [0.4177, 0.6503, 0.5645]),
}  # fmt: skip
"""Scores, weights and context of every row, as the original notebook prints them."""


@pytest.mark.seed("B8")
@pytest.mark.parametrize("query", B08)
def test_every_row_of_the_journey(query: str) -> None:
    trace, (scores, weights, context) = journey(query), B08[query]
    assert_allclose(trace.scores, scores, rtol=0, atol=PRINTED)
    assert_allclose(trace.weights, weights, rtol=0, atol=PRINTED)
    assert_allclose(trace.total, context, rtol=0, atol=PRINTED)


def figure(beta: float) -> Trace:
    """Two keys that a query of 64 numbers scores with 112 and 96, as in the original figure of seed 003."""
    keys = np.array([112.0, 96.0])[:, None] * np.ones((2, 64)) / 64
    return trace_cell(Cell(1, "Thinking", ("Thinking", "Machines"), np.ones(64), keys, np.eye(2), beta))


@pytest.mark.seed("D8")
def test_scores_are_divided_by_the_root_of_the_width() -> None:
    trace = figure(64**-0.5)
    assert_allclose(trace.scores, [112, 96])
    assert_allclose(trace.scaled, [14, 12])
    assert_allclose(trace.weights, [0.8808, 0.1192], rtol=0, atol=PRINTED)
    assert_allclose(figure(1.0).weights[0], 0.9999999, rtol=0, atol=5e-8)


@pytest.mark.seed("D9")
def test_an_irrelevant_word_drowns() -> None:
    scores = np.log(np.array([[0.999], [0.001]]))
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    trace = trace_cell(Cell(1, "a", ("a", "b"), np.ones(1), scores, values))
    assert_allclose(trace.weighted, [[0.999, 1.998], [0.003, 0.004]], rtol=1e-12)
    assert_allclose(trace.total, [1.002, 2.002], rtol=1e-12)


@pytest.mark.seed("D11")
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_one_by_one_is_the_matrix_form(size: float) -> None:
    generator = np.random.default_rng(3)
    q, k, v = (size * generator.normal(size=(5, 8)) for _ in range(3))
    scores = q @ k.T / np.sqrt(8)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    matrix = powers / powers.sum(axis=1, keepdims=True) @ v
    names = tuple("abcde")
    rows = [trace_cell(Cell(t + 1, names[t], names, q[t], k, v, 8**-0.5)).total for t in range(5)]
    assert_allclose(rows, matrix, rtol=0, atol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_scores_neither_overflow_nor_vanish(sign: float) -> None:
    keys = sign * np.array([[1000.0], [1001.0]])
    trace = trace_cell(Cell(1, "a", ("a", "b"), np.ones(1), keys, np.eye(2)))
    assert trace.shift == max(keys)
    assert_allclose(sorted(trace.weights), [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-12)


def test_masked_keys_have_no_part() -> None:
    """Even where their score is so large that its exponential would overflow."""
    keys, values = np.array([[1.0], [1e5], [2.0]]), np.array([[1.0], [np.e], [np.pi]])
    trace = trace_cell(Cell(1, "a", ("a", "b", "c"), np.ones(1), keys, values, allowed=np.array([True, False, True])))
    assert trace.shift == 0.0
    assert trace.exponentials[1] == trace.weights[1] == trace.weighted[1, 0] == 0.0
    expected = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    assert_allclose(trace.weights[[0, 2]], expected, rtol=1e-12)


def test_a_bias_is_added_after_beta() -> None:
    trace = trace_cell(
        Cell(1, "a", ("a", "b"), np.ones(1), np.array([[2.0], [4.0]]), np.eye(2), 0.5, bias=np.array([3.0, 0.0]))
    )
    assert trace.biased.tolist() == [4.0, 2.0]
    assert trace.weights[0] == pytest.approx(1 / (1 + np.exp(-2)))


def test_an_additive_score() -> None:
    vector = np.array([2.0, -3.0])
    trace = trace_cell(
        Cell(1, "a", ("a",), np.array([0.1, 0.2]), np.array([[0.3, -0.5]]), np.ones((1, 1)), score_vector=vector)
    )
    assert trace.scores[0] == pytest.approx(2 * np.tanh(0.4) - 3 * np.tanh(-0.3))


@pytest.mark.seed("A4")
@pytest.mark.parametrize("scores", [[1.0, 5.0, 5.0, 9.0], [-900.0, 0.0, -0.5, 9.0]])
def test_a_hard_choice_takes_the_first_of_the_highest_that_it_may_see(scores: list[float]) -> None:
    keys, allowed = np.array(scores)[:, None], np.array([True, True, True, False])
    trace = trace_cell(Cell(1, "a", tuple("abcd"), np.ones(1), keys, np.eye(4), allowed=allowed, hard=True))
    assert trace.weights.tolist() == trace.total.tolist() == [0, 1, 0, 0]


def test_all_masked_gives_zero() -> None:
    nothing = np.zeros(2, dtype=bool)
    for hard in (False, True):
        trace = trace_cell(Cell(1, "a", ("a", "b"), np.ones(2), np.eye(2), np.eye(2), allowed=nothing, hard=hard))
        assert trace.weights.tolist() == trace.total.tolist() == [0.0, 0.0]
        assert trace.exponential_sum == 0.0


def test_widths_and_counts_must_fit() -> None:
    with pytest.raises(ValueError, match="query and key must have the same width, but query has 3 and key has 2"):
        Cell(1, "a", ("a",), np.ones(3), np.ones((1, 2)), np.ones((1, 2)))
    with pytest.raises(ValueError, match="there are 2 keys, 2 names and 1 values"):
        Cell(1, "a", ("a", "b"), np.ones(2), np.ones((2, 2)), np.ones((1, 2)))


@pytest.mark.parametrize(("size", "beta"), [(1e200, 1.0), (1e10, 1e300), (np.nan, 1.0)])
def test_what_is_not_finite_is_refused(size: float, beta: float) -> None:
    vectors = np.full((1, 2), size)
    with pytest.raises(UsageError, match='the attention of "a" is not finite: a number in the vectors'):
        trace_cell(Cell(1, "a", ("a",), vectors[0], vectors, vectors, beta))


class TestFindQuery:
    TOKENS = ("▁the", "▁cat", "s", "▁the", "2", "²", "s")

    @pytest.mark.parametrize(("wanted", "place"), [("1", 0), ("7", 6), ("cat", 1), ("▁cat", 1), ("²", 5)])
    def test_a_number_or_a_token(self, wanted: str, place: int) -> None:
        assert find_query(wanted, self.TOKENS) == place

    @pytest.mark.parametrize("wanted", ["0", "8", "-1", "dog", "", "▁s"])
    def test_what_is_not_there(self, wanted: str) -> None:
        with pytest.raises(UsageError, match=f'there is no query "?{wanted}"?; choose from 1:▁the 2:▁cat 3:s'):
            find_query(wanted, self.TOKENS)

    def test_what_is_there_twice(self) -> None:
        with pytest.raises(UsageError, match='"the" occurs at 1 and 4; give one number'):
            find_query("the", self.TOKENS)
