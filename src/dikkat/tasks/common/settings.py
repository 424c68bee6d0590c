"""The settings of a run, read back from its config.json or refused where they would change nothing, and its folder."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from dikkat.config import RunConfig, build_config
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.engines import require_kind
from dikkat_runtime.errors import UsageError

Settings = dict[str, dict[str, Any]]
"""Sections of a config.json that differ from the defaults."""


def run_config(settings: dict[str, object], where: str) -> RunConfig:
    """The `RunConfig` in a config.json, without what else it records. Raises `UsageError` for an unknown key."""
    return build_config({key: settings[key] for key in RunConfig.model_fields if key in settings}, where=where)


def settings_of(path: str | Path, task: str) -> tuple[RunDirectory, dict[str, Any], RunConfig]:
    """The run at `path` and what its config.json says. Raises `UsageError` for a model of another kind than `task`."""
    run = RunDirectory.open(Path(path))
    settings = require_kind(run, task)
    return run, settings, run_config(settings, str(run.config))


def without_translating(config: RunConfig, where: str) -> RunConfig:
    """`config`. Raises `UsageError` where it asks for what only a translator can learn by."""
    if config.training.bidirectional_share:
        raise UsageError(f"{where}: training.bidirectional_share is for translators; leave it out")
    if config.data.vocabularies == "separate" or config.model.target_vocab_size is not None:
        raise UsageError(f"{where}: only a translator has two vocabularies; leave out data.vocabularies = separate")
    return config


def free_folder(out: Path) -> Path:
    """A folder beside `out` that is not there yet, to be named in advice."""
    return next(path for number in count(2) if not (path := out.with_name(f"{out.name}-{number}")).exists())
