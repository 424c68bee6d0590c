"""Settings that would change nothing are refused."""

from __future__ import annotations

import pytest

from dikkat.config import RunConfig, build_config
from dikkat.tasks.common.settings import without_translating
from dikkat_runtime.errors import UsageError


def test_what_only_translators_learn_by_is_named() -> None:
    config = build_config({"training": {"bidirectional_share": 0.5}})
    with pytest.raises(UsageError, match=r"run\.toml: training\.bidirectional_share is for translators; leave it out"):
        without_translating(config, "run.toml")


def test_everything_else_passes() -> None:
    assert without_translating(RunConfig(), "run.toml") == RunConfig()
