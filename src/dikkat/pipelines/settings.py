"""The settings of a run: read back from its config.json, and refused where they would change nothing."""

from __future__ import annotations

from dikkat.config import RunConfig, build_config
from dikkat.errors import UsageError


def run_config(settings: dict[str, object], where: str) -> RunConfig:
    """The `RunConfig` in a config.json, without what else it records. Raises `UsageError` for an unknown key."""
    return build_config({key: settings[key] for key in RunConfig.model_fields if key in settings}, where=where)


def without_translating(config: RunConfig, where: str) -> RunConfig:
    """`config`. Raises `UsageError` where it asks for what only a translator can learn by."""
    if config.training.bidirectional_share:
        raise UsageError(f"{where}: training.bidirectional_share is for translators; leave it out")
    return config
