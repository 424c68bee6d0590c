"""The settings of a run, read back from its config.json."""

from __future__ import annotations

from dikkat.config import RunConfig, build_config


def run_config(settings: dict[str, object], where: str) -> RunConfig:
    """The `RunConfig` in a config.json, without what else it records. Raises `UsageError` for an unknown key."""
    return build_config({key: settings[key] for key in RunConfig.model_fields if key in settings}, where=where)
