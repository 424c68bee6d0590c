"""Calibrate probabilities with one temperature for all logits (Guo et al. 2017, section 4.2)."""

from typing import Any

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


# Fit a linear classifier over sparse features: one convex problem, with the same result whatever the threads.

MAX_ITERATIONS, REMEMBERED_STEPS, MIN_FALL = 40, 4, 3e-4
"""Of the minimizer, limited-memory BFGS (Liu and Nocedal 1989)."""
_SMOOTHING, _POWER = 2.0, 0.7

Floats = NDArray[np.floating[Any]]


def prior_scales(features: Any, wanted: Floats) -> NDArray[np.float32]:
    """Return how far each weight (F, K) may lie from 0: by how much its feature tells an output from the others.

    It is a power of the log-count ratio of the feature (Wang and Manning 2012) in the texts that have the output and in
    the others, each count smoothed by what the shares of the outputs let expect. `features` is sparse (N, F), `wanted`
    (N, K) is 1 where a text has the output.
    """
    present = features.copy()
    present.data = np.ones_like(present.data)
    total = np.asarray(present.sum(axis=0)).reshape(-1, 1)
    with_output = np.asarray(present.T @ wanted.astype(np.float32), np.float64)
    share = np.clip(wanted.mean(axis=0), 1e-6, 1 - 1e-6)
    own = (with_output + _SMOOTHING * share) / ((total + _SMOOTHING) * share)
    others = (total - with_output + _SMOOTHING * (1 - share)) / ((total + _SMOOTHING) * (1 - share))
    return np.asarray(np.abs(np.log(own / others)) ** _POWER, np.float32)


def fit_linear(
    features: Any, wanted: Floats, strength: float, *, is_exclusive: bool
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return weights (F, K) and bias (K,) that minimize the loss and the sum of squares over twice the `strength`.

    `wanted` (N, K) is 1 where a text has the output. The loss of a text is the cross-entropy over all outputs where
    `is_exclusive` and there are several, else the sum of binary ones.
    """
    # whoever only classifies does not wait for them
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    size, outputs = features.shape[1], wanted.shape[1]
    scales, transposed = prior_scales(features, wanted), features.T.tocsr()
    is_softmax = is_exclusive and outputs > 1

    def loss_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scaled, bias = flat[: size * outputs].reshape(size, outputs), flat[size * outputs :]
        logits = np.asarray(features @ (scaled * scales).astype(np.float32), np.float64) + bias
        residual = (probabilities(logits) if is_softmax else label_probabilities(logits)) - wanted
        if is_softmax:
            largest = logits.max(axis=1, keepdims=True)
            losses = largest + np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
            losses = losses - (logits * wanted).sum(axis=1, keepdims=True)
        else:
            losses = np.logaddexp(0.0, logits) - logits * wanted
        gradient = np.asarray(transposed @ residual.astype(np.float32), np.float64) * scales + scaled / strength
        loss = float(losses.sum() + 0.5 * (scaled * scaled).sum() / strength)
        return loss, np.concatenate((gradient.reshape(-1), residual.sum(axis=0)))

    start = np.zeros(size * outputs + outputs)
    start[size * outputs :] = prior_log_odds(wanted, is_softmax=is_softmax)
    options = {"maxiter": MAX_ITERATIONS, "maxcor": REMEMBERED_STEPS, "ftol": MIN_FALL}
    # sums over several threads round in another order
    with threadpool_limits(1, "blas"):
        solution = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x
    return (solution[: size * outputs].reshape(size, outputs) * scales).astype(np.float32), solution[size * outputs :]


def prior_log_odds(wanted: Floats, *, is_softmax: bool) -> NDArray[np.float64]:
    """Return the logits (K,) that the shares of the outputs in `wanted` (N, K) are worth without any text."""
    share = (wanted.sum(axis=0) + 0.5) / (len(wanted) + 1.0)
    return np.asarray(np.log(share) if is_softmax else np.log(share / (1.0 - share)), np.float64)
