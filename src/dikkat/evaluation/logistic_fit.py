"""Fit a linear classifier over sparse features: one convex problem, with the same result whatever the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.evaluation.calibration import label_probabilities, probabilities

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
    features: Any, wanted: Floats, strength: float, *, is_exclusive: bool, weights: Floats | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return weights (F, K) and bias (K,) that minimize the loss and the sum of squares over twice the `strength`.

    `wanted` (N, K) is 1 where a text has the output. The loss of a text is the cross-entropy over all outputs where
    `is_exclusive` and there are several, else the sum of binary ones; `weights` (N,) multiply it.
    """
    # whoever only classifies does not wait for them
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    count, (size, outputs) = len(wanted), (features.shape[1], wanted.shape[1])
    scales, transposed = prior_scales(features, wanted), features.T.tocsr()
    of_text = np.ones((count, 1)) if weights is None else np.asarray(weights, np.float64).reshape(-1, 1)
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
        residual = residual * of_text
        gradient = np.asarray(transposed @ residual.astype(np.float32), np.float64) * scales + scaled / strength
        loss = float((losses * of_text).sum() + 0.5 * (scaled * scaled).sum() / strength)
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
