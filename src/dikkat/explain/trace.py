"""Trace one attention cell: everything between a query and its output, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.foreign_json import shown

Array = NDArray[np.float64]

_MAX_NAMED = 40
"""Tokens that a message lists."""
PLAIN_EXPONENTIAL_LIMIT = 30.0
"""Largest score up to which exponentials are taken directly; beyond, the largest score is subtracted first."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Hold one query with the keys and values it attends to. Raises `ValueError` for widths that do not fit."""

    query_number: int
    """Position of the query in its own sequence, from 1."""
    query_token: str
    key_tokens: tuple[str, ...]
    """S labels of the keys."""
    query: Array
    """(K,)"""
    keys: Array
    """(S, K)"""
    values: Array
    """(S, E)"""
    beta: float = 1.0
    """Factor of the scores before the exponential."""
    allowed: NDArray[np.bool_] | None = None
    """(S,), True = may attend; None: every key."""
    bias: Array | None = None
    """(S,), added to the scores after `beta`: the position bias."""
    score_vector: Array | None = None
    """(K,), of the additive score (Bahdanau et al. 2015): v in v . tanh(q + k); None: the dot product."""
    hard: bool = False
    """Whether all weight is on the highest score, the first on a tie, instead of softmax."""

    def __post_init__(self) -> None:
        if self.keys.shape[1:] != self.query.shape:
            raise ValueError(
                f"query and key must have the same width, but query has {self.query.shape[0]} "
                f"and key has {self.keys.shape[1]}"
            )
        if not len(self.key_tokens) == len(self.keys) == len(self.values):
            raise ValueError(
                f"every key needs a name and a value, but there are {len(self.keys)} keys, "
                f"{len(self.key_tokens)} names and {len(self.values)} values"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Hold the arithmetic of one cell, in the order of computation (Vaswani et al. 2017, section 3.2.1)."""

    cell: Cell
    terms: Array
    """(S, K), products of one number of the query with one of a key (additive score: v·tanh(q + k))."""
    scores: Array
    """(S,), q·k: the terms of each key, summed."""
    scaled: Array
    """(S,), scores times beta."""
    biased: Array
    """(S,), scaled scores plus bias: what the softmax gets."""
    allowed: NDArray[np.bool_]
    """(S,), True = may attend."""
    shift: float
    """Subtracted from every biased score before the exponential; 0 unless the scores are large."""
    exponentials: Array
    """(S,), exp(biased - shift); 0 where masked."""
    exponential_sum: float
    weights: Array
    """(S,), exponentials divided by their sum, or one-hot where the choice is hard; all 0 when every key is masked."""
    weighted: Array
    """(S, E), each value times its weight."""
    total: Array
    """(E,), the sum of the weighted values: the output of the cell."""

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers with all digits, as JSON can hold them."""
        cell = self.cell
        return {
            "query": {"number": cell.query_number, "token": cell.query_token, "vector": cell.query.tolist()},
            "keys": list(cell.key_tokens),
            "key_vectors": cell.keys.tolist(),
            "values": cell.values.tolist(),
            "terms": self.terms.tolist(),
            "scores": self.scores.tolist(),
            "beta": cell.beta,
            "scaled": self.scaled.tolist(),
            "biased": self.biased.tolist(),
            "hard": cell.hard,
            "allowed": self.allowed.tolist(),
            "shift": self.shift,
            "exponentials": self.exponentials.tolist(),
            "exponential_sum": self.exponential_sum,
            "weights": self.weights.tolist(),
            "weighted_values": self.weighted.tolist(),
            "total": self.total.tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ModelTrace:
    """Hold the trace of a cell of a trained model, and its position in the model."""

    trace: Trace
    stack: str
    layer: int
    """Layer, from 0."""
    head: int
    """Head, from 0."""
    kind: str
    """"self" or "cross"."""
    num_heads: int
    query_input: Array
    """(D,), the input of the layer's query projection for the query's token."""
    module_output: Array
    """(K,), what the model itself computed in this head for this query, before the output projection."""
    has_bias: bool
    """Whether the projections add a bias."""
    turns: tuple[str, ...]
    """Operations on q after its projection: "rotary" (k too), "bilinear"."""
    positions_added: bool
    """Whether positions were added to the embeddings."""

    @property
    def difference(self) -> float:
        """Return the largest distance between the trace's total and what the model itself computed."""
        return float(np.abs(self.trace.total - self.module_output).max())


def trace_cell(cell: Cell) -> Trace:
    """Compute the trace of `cell`. Raises `UsageError` when a number is no longer finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        trace = _trace(cell)
    if not (np.isfinite(trace.scores).all() and np.isfinite(trace.biased).all() and np.isfinite(trace.weighted).all()):
        raise UsageError(
            'the attention of "{query}" is not finite: a number in the vectors, in the weights of the model or '
            "in beta is too large"
        ).fill(cell.query_token)
    return trace


def _trace(cell: Cell) -> Trace:
    allowed = np.ones(len(cell.keys), dtype=bool) if cell.allowed is None else cell.allowed
    additive = cell.score_vector is not None
    terms = cell.score_vector * np.tanh(cell.query + cell.keys) if additive else cell.query * cell.keys
    scores = terms.sum(axis=1)
    scaled = scores * cell.beta
    biased = scaled if cell.bias is None else scaled + cell.bias
    largest = float(biased[allowed].max()) if allowed.any() else 0.0
    shift = largest if abs(largest) > PLAIN_EXPONENTIAL_LIMIT else 0.0
    # masked scores may be larger than the shift: they never enter the exponential
    exponentials = np.exp(np.where(allowed, biased - shift, -np.inf))
    total = float(exponentials.sum())
    weights = exponentials / total if allowed.any() else exponentials
    if cell.hard and allowed.any():
        # argmax returns the first of equal maxima
        weights = np.eye(len(weights))[np.where(allowed, biased, -np.inf).argmax()]
    weighted = weights[:, None] * cell.values
    return Trace(
        cell=cell,
        terms=terms,
        scores=scores,
        scaled=scaled,
        biased=biased,
        allowed=allowed,
        shift=shift,
        exponentials=exponentials,
        exponential_sum=total,
        weights=weights,
        weighted=weighted,
        total=weighted.sum(axis=0),
    )


def find_query(wanted: str, tokens: Sequence[str]) -> int:
    """Return the index, from 0, of the query `wanted`: a number from 1, or a token (without its leading "▁").

    Raises `UsageError` when there is none, or a token stands at more than one place.
    """
    listed = " ".join(f"{number}:{shown(token)}" for number, token in enumerate(tokens[:_MAX_NAMED], start=1))
    listed += f" … {len(tokens)}" if len(tokens) > _MAX_NAMED else ""
    # only these digits: "²".isdigit() is true and int("²") fails
    if wanted.isascii() and wanted.isdigit():
        # Python refuses to read thousands of digits
        if len(wanted) > 9 or not 1 <= int(wanted) <= len(tokens):
            raise UsageError("there is no query {query}; choose from {known}", shown(wanted), listed)
        return int(wanted) - 1
    exact = [index for index, token in enumerate(tokens) if token == wanted]
    matches = exact or [index for index, token in enumerate(tokens) if token.removeprefix("▁") == wanted]
    if not matches:
        raise UsageError('there is no query "{query}"; choose from {known}', shown(wanted), listed)
    if len(matches) > 1:
        numbers = " and ".join(str(index + 1) for index in matches[:_MAX_NAMED])
        raise UsageError('"{query}" occurs at {positions}; give one number', shown(wanted), numbers)
    return matches[0]
