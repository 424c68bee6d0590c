"""The temperature against a plain search, and against logits that were made too sure by a known factor."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.evaluation.calibration import calibration_error, fit_temperature, probabilities


def drawn(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits `factor` times as large as those that the classes were drawn by."""
    generator = np.random.default_rng(4)
    logits = generator.normal(size=(count, 3)) * 2
    cumulative = probabilities(logits).cumsum(axis=1)
    wanted = (generator.random((count, 1)) > cumulative).sum(axis=1)
    return logits * factor, np.minimum(wanted, 2)


def test_the_factor_is_found_again() -> None:
    logits, wanted = drawn(20_000, factor=3.0)
    assert fit_temperature(logits, wanted) == pytest.approx(3.0, rel=0.05)


def test_no_other_temperature_is_likelier() -> None:
    logits, wanted = drawn(500, factor=0.5)
    count, classes = logits.shape
    targets = np.full(logits.shape, 1.0) / (count + classes)
    targets[np.arange(count), wanted] += count / (count + classes)

    def loss(temperature: float) -> float:
        return -float((targets * np.log(probabilities(logits, temperature))).sum())

    result = fit_temperature(logits, wanted)
    assert all(loss(result) <= loss(result * factor) for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))


def test_no_mistake_on_few_texts_is_no_certainty() -> None:
    """Without Platt's targets the likeliest temperature is 0, and every probability 1."""
    wanted = np.array([0, 1] * 10)
    logits = np.where(np.arange(2) == wanted[:, None], 5.0, -5.0)
    sureness = probabilities(logits, fit_temperature(logits, wanted)).max(axis=1)
    # (N + 1) / (N + C), with N = 20 and C = 2
    assert sureness == pytest.approx(21 / 22, abs=1e-6)


def test_calibration_error_of_known_gaps() -> None:
    result = np.array([[0.9, 0.1]] * 10 + [[0.3, 0.7]] * 10)
    wanted = np.array([0] * 8 + [1] * 2 + [1] * 7 + [0] * 3)
    # half of the texts are 0.9 sure and 0.8 right, the others 0.7 sure and right
    assert calibration_error(result, wanted) == pytest.approx(0.05)
    assert calibration_error(np.array([[1.0, 0.0]]), np.array([0])) == 0.0
