"""Settings that would change nothing are refused."""

from __future__ import annotations

import pytest

from dikkat.config import RunConfig, build_config
from dikkat.tasks.common.settings import without_translating
from dikkat_runtime.errors import UsageError


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("training", "bidirectional_share", 0.5),
        ("training", "guided_weight", 0.5),
        ("model", "start_from_zero", True),
        ("model", "add_source_eos", False),
        ("model", "target_prefix", 5),
    ],
)
def test_what_only_translators_learn_by_is_named(section: str, name: str, value: object) -> None:
    config = build_config({section: {name: value}})
    with pytest.raises(UsageError, match=rf"^run\.toml: {section}\.{name} is for translators; leave it out$"):
        without_translating(config, "run.toml")


def test_everything_else_passes() -> None:
    assert without_translating(RunConfig(), "run.toml") == RunConfig()
