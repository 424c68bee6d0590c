"""Settings for the libraries beneath torch: ours where the user has none."""

from __future__ import annotations

import os

import pytest

from dikkat.kernels.environment import set_environment


def test_threads_wait_awake_for_a_moment_and_then_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    set_environment()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert 0 < int(os.environ["GOMP_SPINCOUNT"]) < 10_000


@pytest.mark.parametrize("own", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "0"}], ids=str)
def test_who_decides_how_threads_wait_decides_alone(monkeypatch: pytest.MonkeyPatch, own: dict[str, str]) -> None:
    """GNU's count goes before the policy, so that ours would take back what the user said of the other."""
    monkeypatch.setattr(os, "environ", {**own})
    set_environment()
    of_threads = {name: value for name, value in os.environ.items() if name.startswith(("OMP", "GOMP"))}
    assert of_threads == own
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) > 0


def test_the_users_own_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7"})
    set_environment()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
