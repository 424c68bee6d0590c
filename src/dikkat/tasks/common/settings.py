"""Read the settings of a run from its config.json, and name a free folder for the next run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from dikkat.config import RunConfig, build_config, merge
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import UsageError

Settings = dict[str, dict[str, Any]]
"""Sections of a config.json that differ from the defaults."""


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what a user asks of a command of `dikkat train`."""

    data: Sequence[str]
    """Data as named by the user; empty when a run is resumed."""
    validation: Sequence[str] = ()
    """Data to validate on, in the same forms; held out from `data` when empty."""
    columns: tuple[str | None, str | None] = (None, None)
    """Columns of a table: names, or numbers from 1; found by header or content where not named."""
    preset: str | None = None
    settings: Settings = field(default_factory=dict)
    """Overrides of the preset, from a file and from options."""
    where: str = "configuration"
    """Where the overrides come from, for error messages."""
    device: Device = "cpu"
    """Device that the model will be trained on."""
    start: Path | None = None
    """Run whose weights and tokenizer are the initial ones."""

    @property
    def has_settings(self) -> bool:
        """Return whether the user set anything."""
        return bool(self.settings or self.preset or self.start)


TUNED: Settings = {
    "training": {
        "optimizer": "adamw", "learning_rate": 1e-4, "beta2": 0.999, "weight_decay": 0.01, "label_smoothing": 0.0,
        "ema_decay": 0.99, "tokens_per_batch": 2_048, "max_epochs": 2.0, "validations": 6, "patience": 4,
    },
}  # fmt: skip
"""Settings by which a model that another toolkit trained learns on: it must not forget what it knows.

It keeps the dropout that it was trained with: one that never met any loses half of what it knows by it.
"""
LOW_RANK_RATE = 1e-3
"""Learning rate of low-rank updates, which begin at zero."""


def tuning(asked: Settings) -> Settings:
    """Return `TUNED`, with the learning rate of low-rank updates where these are `asked` for."""
    is_low_rank = bool(asked.get("training", {}).get("low_rank"))
    return merge(TUNED, {"training": {"learning_rate": LOW_RANK_RATE}}) if is_low_rank else TUNED


def require_start(asked: Settings, start: Path | None, where: str) -> None:
    """Raise `UsageError` for low-rank updates of weights that nothing was learned into yet."""
    if start is None and asked.get("training", {}).get("low_rank"):
        raise UsageError("{where}: training.low_rank (--lora) updates an existing model: name it with --from", where)


def run_config(settings: dict[str, object], where: str) -> RunConfig:
    """Return the `RunConfig` in a config.json, without the other keys that it records.

    Raises `UsageError` for an unknown key; `where` names the file.
    """
    return build_config({key: settings[key] for key in RunConfig.model_fields if key in settings}, where=where)


def without_translating(config: RunConfig, where: str) -> RunConfig:
    """Return `config`. Raises `UsageError` where it asks for something that only a translator can be trained with."""
    for setting, is_asked in (
        ("training.bidirectional_share", config.training.bidirectional_share),
        ("training.guided_weight", config.training.guided_weight),
        ("model.start_from_zero", config.model.start_from_zero),
        ("model.add_source_eos", not config.model.add_source_eos),
        ("model.target_prefix", config.model.target_prefix is not None),
    ):
        if is_asked:
            raise UsageError("{where}: {setting} is for translators; leave it out", where, setting)
    if config.data.vocabularies == "separate" or config.model.target_vocab_size is not None:
        raise UsageError(
            "{where}: only a translator has two vocabularies; leave out data.vocabularies = separate", where
        )
    return config


def free_folder(out: Path) -> Path:
    """Return a folder next to `out` that does not exist yet, to be named in advice."""
    return next(path for number in count(2) if not (path := out.with_name(f"{out.name}-{number}")).exists())
