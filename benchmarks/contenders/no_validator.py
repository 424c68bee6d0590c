"""A validator for trainings that are stopped before they validate."""

from __future__ import annotations

from typing import Any

from dikkat.training.task import Stop, Validation, never


class NoValidator:
    """Stands where a trainer wants a validator; no validation falls into the measurement."""

    def __call__(self, model: Any, number: int, should_stop: Stop = never) -> Validation:
        raise RuntimeError("a validation fell into the measurement")

    def baseline(self) -> Any:
        raise RuntimeError("a validation fell into the measurement")

    def limit(self, share: float) -> float:
        return share

    def share_with(self, ranks: Any) -> None:
        return None
