"""What `--launcher ray` says of a signal, with a Ray whose actors are objects of this process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dikkat.cli import ray_processes
from dikkat.cli.ray_processes import RayLauncher
from dikkat_runtime.cli.signals import Interrupted, StopSignal


class Actor:
    """An object whose methods are called as those of an actor."""

    def __init__(self, kind: Callable[[], object]) -> None:
        self.own = kind()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> SimpleNamespace:
        self.calls.append(name)
        return SimpleNamespace(remote=getattr(self.own, name))


def fake_ray() -> SimpleNamespace:
    def remote(kind: Callable[[], object]) -> SimpleNamespace:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: Actor(kind)))

    return SimpleNamespace(
        nodes=lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}],
        available_resources=lambda: {"CPU": 2.0},
        remote=remote,
        get=lambda reply: reply,
        kill=lambda actor: None,
    )


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("is_said", [False, True])
def test_a_signal_of_which_no_rank_says_anything_is_said_by_the_launcher(
    is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(launcher: RayLauncher, board: Any, storage: str, failures: list[Exception], stop: StopSignal) -> None:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        while "stop" not in board.calls:
            time.sleep(0.01)
        board.end.remote(0, 143, is_said)
        board.end.remote(1, -signal.SIGTERM, False)

    monkeypatch.setattr(ray_processes, "reach_ray", lambda *_: fake_ray())
    monkeypatch.setattr(ray_processes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(RayLauncher, "_fit", fit)
    launcher = RayLauncher(2, [], "dikkat")
    if is_said:
        assert launcher.start() == {0: 130, 1: 130}
        return
    with pytest.raises(Interrupted) as caught:
        launcher.start()
    assert caught.value.exit_code == 130
