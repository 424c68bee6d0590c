"""Signals that are held back are answered later, each by its own handler."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from dikkat_runtime.process_signals import signals_held


@pytest.fixture
def terminations() -> Iterator[list[int]]:
    """Signal numbers that a handler of SIGTERM has got."""
    got = list[int]()

    def note(number: int, frame: FrameType | None) -> None:
        got.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, note)
    yield got
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt_after(real: Callable[..., Any], is_due: Callable[[object], bool]) -> Callable[..., Any]:
    """Return `signal.signal` with a Ctrl-C right after it has set the handler of that one."""

    def set_handler(number: int, handler: object) -> object:
        before = real(number, handler)
        if number == signal.SIGINT and is_due(handler):
            os.kill(os.getpid(), signal.SIGINT)
        return before

    return set_handler


def hold(terminations: list[int], done: list[str]) -> None:
    with signals_held():
        os.kill(os.getpid(), signal.SIGTERM)
        assert not terminations
        done.append("all")


@pytest.mark.parametrize("is_put_back", [False, True])
def test_a_ctrl_c_while_handlers_are_set_leaves_none_deaf(
    is_put_back: bool, terminations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered after the body where it comes before that, and the handlers that stood there stand again."""
    done = list[str]()

    def is_due(handler: object) -> bool:
        return (handler is signal.default_int_handler) == is_put_back

    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", interrupt_after(signal.signal, is_due))
        with pytest.raises(KeyboardInterrupt):
            hold(terminations, done)
    assert done == ["all"]
    terminations.clear()
    os.kill(os.getpid(), signal.SIGTERM)
    assert terminations == [signal.SIGTERM]
