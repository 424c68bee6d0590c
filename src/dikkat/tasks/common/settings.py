"""Read the settings of a run from its config.json, and name a free folder for the next run."""

from itertools import count
from pathlib import Path
from typing import Any

from dikkat.config import RunConfig, build_config
from dikkat_runtime.errors import UsageError

Settings = dict[str, dict[str, Any]]
"""Sections of a config.json that differ from the defaults."""


def run_config(settings: dict[str, object], where: str) -> RunConfig:
    """Return the `RunConfig` in a config.json, without the other keys that it records.

    Raises `UsageError` for an unknown key; `where` names the file.
    """
    return build_config({key: settings[key] for key in RunConfig.model_fields if key in settings}, where=where)


def without_translating(config: RunConfig, where: str) -> RunConfig:
    """Return `config` unchanged.

    Raises `UsageError` where it asks for something that only a translator can be trained with.
    """
    if config.training.bidirectional_share:
        raise UsageError("{where}: training.bidirectional_share is for translators; leave it out", where)
    if config.training.guided_weight:
        raise UsageError("{where}: training.guided_weight is for translators; leave it out", where)
    if config.data.vocabularies == "separate" or config.model.target_vocab_size is not None:
        raise UsageError(
            "{where}: only a translator has two vocabularies; leave out data.vocabularies = separate", where
        )
    if config.model.start_from_zero:
        raise UsageError("{where}: model.start_from_zero is for translators; leave it out", where)
    if not config.model.add_source_eos:
        raise UsageError("{where}: model.add_source_eos is for translators; leave it out", where)
    if config.model.target_prefix is not None:
        raise UsageError("{where}: model.target_prefix is for translators; leave it out", where)
    return config


def free_folder(out: Path) -> Path:
    """Return a folder next to `out` that does not exist yet, to be named in advice."""
    return next(path for number in count(2) if not (path := out.with_name(f"{out.name}-{number}")).exists())
