"""Fit a logistic model of few features, in float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dikkat_runtime.engine.products import sigmoid
from dikkat_runtime.tasks.lexicon import Matrix

_ROUNDS = 50
_MAX_VALUE = 30.0
"""Largest logit; beyond it a probability is 0 or 1 in float64."""


@dataclass(frozen=True)
class Logistic:
    """A logistic model: a weight for each feature, and an intercept."""

    weights: Matrix
    """(F + 1,), the intercept last."""

    @classmethod
    def fit(cls, features: Matrix, labels: Sequence[float], *, ridge: float = 1.0) -> Self:
        """Fit weights (F + 1,) of greatest likelihood for `features` (N, F), less `ridge` / 2 times their squares.

        The squares are those of the weights of standardised features.
        """
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        x = np.c_[(features - means) / scales, np.ones(len(features))]
        y = np.asarray(labels, np.float64)
        # the ridge on the intercept is tiny: it keeps the fit of one-sided labels finite
        penalty = np.diag([ridge] * features.shape[1] + [0.1])
        weights = np.zeros(x.shape[1])
        for _ in range(_ROUNDS):
            p = sigmoid(x @ weights)
            gradient = x.T @ (y - p) - penalty @ weights
            hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
            step = np.linalg.solve(hessian, gradient)
            weights = weights + step
            if np.abs(step).max() < 1e-8:
                break
        slopes = weights[:-1] / scales
        return cls(np.r_[slopes, weights[-1] - slopes @ means])

    def logits(self, features: Matrix) -> Matrix:
        """Return logits (N,) of features (N, F)."""
        # summed row by row, so that a row has the same bits in any company
        scores: Matrix = (features * self.weights[:-1]).sum(axis=1) + self.weights[-1]
        return np.clip(scores, -_MAX_VALUE, _MAX_VALUE)

    def probabilities(self, features: Matrix) -> Matrix:
        """Return probabilities (N,) of features (N, F)."""
        return sigmoid(self.logits(features))

    def to_json(self, names: Sequence[str]) -> dict[str, float]:
        """Return the weights, each under its name."""
        return dict(zip((*names, "intercept"), self.weights.tolist(), strict=True))

    @classmethod
    def from_json(cls, content: Mapping[str, float], names: Sequence[str]) -> Self:
        """Return the model of a JSON object, a weight under each name. Raises `ValueError` where it has others."""
        weights = np.array(list(content.values()), np.float64)
        if list(content) != [*names, "intercept"] or not np.isfinite(weights).all():
            raise ValueError("it has other features")
        return cls(weights)
