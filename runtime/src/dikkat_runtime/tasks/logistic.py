"""Logistic regression: from features to a probability (Cox 1958), fitted by Newton's method over numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_ROUNDS = 50
_MAX_VALUE = 30.0
"""Largest logit; beyond it a probability is 0 or 1 in float64."""


@dataclass(frozen=True)
class Logistic:
    """A logistic model: a weight for each standardised feature, and an intercept."""

    means: Matrix
    scales: Matrix
    weights: Matrix
    """(F + 1,), the intercept last."""

    @classmethod
    def fit(cls, features: Matrix, labels: Sequence[bool], *, ridge: float = 1.0) -> Self:
        """Fit weights (F + 1,) of greatest likelihood for `features` (N, F), less `ridge` / 2 times their squares."""
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        x = np.c_[(features - means) / scales, np.ones(len(features))]
        y = np.asarray(labels, np.float64)
        # the ridge on the intercept is tiny: it keeps the fit of one-sided labels finite
        penalty = np.diag([ridge] * features.shape[1] + [0.1])
        weights = np.zeros(x.shape[1])
        for _ in range(_ROUNDS):
            p = _sigmoid(x @ weights)
            gradient = x.T @ (y - p) - penalty @ weights
            hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
            step = np.linalg.solve(hessian, gradient)
            weights = weights + step
            if np.abs(step).max() < 1e-8:
                break
        return cls(means, scales, weights)

    def logits(self, features: Matrix) -> Matrix:
        """Return logits (N,) of features (N, F)."""
        scores: Matrix = (features - self.means) / self.scales @ self.weights[:-1] + self.weights[-1]
        return np.clip(scores, -_MAX_VALUE, _MAX_VALUE)

    def probabilities(self, features: Matrix) -> Matrix:
        """Return probabilities (N,) of features (N, F)."""
        return _sigmoid(self.logits(features))

    def as_json(self) -> dict[str, list[float]]:
        """Return the model as `from_json` reads it."""
        return {name: getattr(self, name).tolist() for name in ("means", "scales", "weights")}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], features: int) -> Self:
        """Return the model of a JSON object.

        Raises `ValueError` or `KeyError` where it is not a model of `features` features.
        """
        arrays = [np.array(content[name], np.float64) for name in ("means", "scales", "weights")]
        if [array.shape for array in arrays] != [(features,), (features,), (features + 1,)]:
            raise ValueError("it has other features")
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("a weight is not finite")
        return cls(*arrays)


def _sigmoid(logits: Matrix) -> Matrix:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -_MAX_VALUE, _MAX_VALUE))))
