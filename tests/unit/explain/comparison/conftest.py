"""One small comparison, shared by the tests of its forms."""

from __future__ import annotations

import pytest

from dikkat.lessons.comparison.compare import compare
from dikkat.lessons.comparison.explanation import Comparison
from dikkat.lessons.comparison.layers import ComparisonSettings


@pytest.fixture(scope="session")
def small_settings() -> ComparisonSettings:
    return ComparisonSettings(lengths=(16, 32), width=8)


@pytest.fixture(scope="session")
def small(small_settings: ComparisonSettings) -> Comparison:
    return compare(small_settings, lambda done, pieces, what: None)
