"""Which signals are taken as a wish to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from dikkat.cli.signals import Interrupted, StopSignal


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """As they were, afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_interrupts_until_somebody_asks_for_it() -> None:
    stop = StopSignal()
    with pytest.raises(Interrupted) as found:
        signal.raise_signal(signal.SIGTERM)
    assert found.value.exit_code == 143
    assert not stop()
    signal.raise_signal(signal.SIGINT)
    assert stop()
    assert stop.exit_code == 130
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)


def test_what_the_starter_ignores_stays_ignored() -> None:
    """A script's `command &` must not be stopped by a Ctrl-C that was meant for the script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = StopSignal()
    signal.raise_signal(signal.SIGINT)
    assert not stop()
    signal.raise_signal(signal.SIGTERM)
    assert stop()
    assert stop.exit_code == 143
