"""An examination runs a model dozens of times: shapes, which the tests of the models check, would cost most of it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fast(unchecked_shapes: None) -> None:
    """Switches the shape checks off."""
