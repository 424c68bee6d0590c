"""Calibrate probabilities with one temperature for all logits (Guo et al. 2017, section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_COLDEST, _HOTTEST = 0.01, 100.0
_HALVINGS, _NEWTON_STEPS = 60, 30


def probabilities(logits: NDArray[np.floating], temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the softmax (N, C) of `logits / temperature`."""
    scaled = np.asarray(logits, np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def label_probabilities(logits: NDArray[np.floating], temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the logistic function (N, C) of `logits / temperature`: each label is a decision of its own."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64) / temperature)))


def fit_label_temperature(logits: NDArray[np.floating], wanted: NDArray[np.bool_]) -> float:
    """Fit the temperature to all N x C decisions; the logistic function is the softmax of a logit and 0."""
    flat = np.asarray(logits, np.float64).reshape(-1)
    return fit_temperature(np.stack([np.zeros_like(flat), flat], axis=1), wanted.reshape(-1).astype(np.int64))


def fit_label_lines(
    logits: NDArray[np.floating], wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scale and shift (C,) of each label after which the logistic function gives its share (Platt 1999).

    Both are drawn towards those of all labels together, the more the fewer texts have the label.
    """
    exact = np.asarray(logits, np.float64)
    common = 1.0 / fit_label_temperature(exact, wanted)
    lines = [_label_line(exact[:, label], wanted[:, label], common) for label in range(exact.shape[1])]
    return np.array([scale for scale, _ in lines]), np.array([shift for _, shift in lines])


def _label_line(logits: NDArray[np.float64], wanted: NDArray[np.bool_], common: float) -> tuple[float, float]:
    """Return scale and shift of one label, by Newton's method."""
    rows = np.stack((logits, np.ones_like(logits)), axis=1)
    line, start = np.array([common, 0.0]), np.array([common, 0.0])
    # worth a text or two each
    holding = np.diag([1.0 / common**2, 1.0])
    for _ in range(_NEWTON_STEPS):
        shares = label_probabilities(rows @ line)
        slope = rows.T @ (shares - wanted) + holding @ (line - start)
        curvature = (rows * (shares * (1.0 - shares))[:, None]).T @ rows + holding
        step = np.linalg.solve(curvature, slope)
        line = line - step * min(1.0, 0.5 * common / max(abs(step[0]), 1e-12))
    return max(float(line[0]), 0.1 * common), float(line[1])


def fit_temperature(logits: NDArray[np.floating], wanted: NDArray[np.int64]) -> float:
    """Return the temperature between 0.01 and 100 that makes the right classes `wanted` (N,) likeliest.

    A right class counts for (N + 1) / (N + C) and each other for 1 / (N + C) (Platt 1999, section 2.2): N texts
    without a mistake do not prove that there is none. The loss is convex in the inverse temperature, so its slope, the
    logit expected less the logit wanted, crosses zero at most once: found by halving.
    """
    exact = np.asarray(logits, np.float64)
    count, classes = exact.shape
    right = (count * exact[np.arange(count), wanted] + exact.sum(axis=1)) / (count + classes)
    colder, hotter = np.log(_COLDEST), np.log(_HOTTEST)
    for _ in range(_HALVINGS):
        middle = (colder + hotter) / 2
        expected = (probabilities(exact, float(np.exp(middle))) * exact).sum(axis=1)
        if (expected - right).sum() > 0:
            colder = middle
        else:
            hotter = middle
    return float(np.exp((colder + hotter) / 2))


def calibration_error(predicted: NDArray[np.float64], wanted: NDArray[np.int64], bins: int = 15) -> float:
    """Return the mean gap between sureness and accuracy, over `bins` of sureness (section 2)."""
    sureness = predicted.max(axis=1)
    is_right = predicted.argmax(axis=1) == wanted
    bin_indices = np.minimum((sureness * bins).astype(np.int64), bins - 1)
    # a bin's share times its gap is the difference of its sums over N
    sums = np.zeros(bins)
    np.add.at(sums, bin_indices, sureness - is_right)
    return float(np.abs(sums).sum() / len(sureness))
