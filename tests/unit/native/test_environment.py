"""Settings for the libraries beneath torch: ours where the user has none."""

from __future__ import annotations

import os

import pytest

from dikkat.native.environment import set_environment


def test_the_users_own_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"OMP_WAIT_POLICY": "ACTIVE"})
    set_environment()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) > 0
