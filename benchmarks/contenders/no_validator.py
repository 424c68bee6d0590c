"""A validator for trainings that are stopped before they validate."""

from __future__ import annotations

from typing import Any

from dikkat.training.task import Validation
from dikkat.training.translation import Validator


class NoValidator(Validator):
    """Stands where a trainer wants a validator; no validation falls into the measurement."""

    def __init__(self) -> None:
        """Hold no sentences."""

    def __call__(self, *_: Any, **__: Any) -> Validation:
        raise RuntimeError("a validation fell into the measurement")

    def baseline(self) -> Any:
        raise RuntimeError("a validation fell into the measurement")

    def limit(self, share: float) -> float:
        return share
