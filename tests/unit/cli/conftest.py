"""What tests of the command line share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from dikkat_runtime.process_signals import NUMBERS


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Put the handlers of signals back at the end."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
