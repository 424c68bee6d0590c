"""Checksums of an exported folder, kept in its config.json: CTranslate2 has none, and reads flipped bits as weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_regular, shown

OWN, SUMS, SETTINGS = "dikkat", "sha256", "config.json"
"""Our entry of config.json, in which an export keeps what CTranslate2 does not ask for, and the checksums in it."""
_MAX_SIZE = 1 << 34


def with_checksums(config: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the settings with the checksum of each file, and of themselves."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**config, OWN: {**config[OWN], SUMS: {**sums, SETTINGS: _own_sum(config)}}}


def check_checksums(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise `DataError` naming a file of the folder that is not as it was written."""
    sums = config[OWN].get(SUMS)
    if not isinstance(sums, dict) or SETTINGS not in sums:
        raise DataError("{folder}: damaged: it has lost its checksums; export the model anew").fill(folder / SETTINGS)
    for name, wanted in sums.items():
        if Path(name).name != name:
            raise DataError("{folder}: names a file outside the folder: {name}").fill(folder / SETTINGS, shown(name))
        actual = (
            _own_sum(config) if name == SETTINGS else hashlib.sha256(read_regular(folder / name, _MAX_SIZE)).hexdigest()
        )
        if actual != wanted:
            raise DataError("{folder}: damaged: its content does not match its checksum; export the model anew").fill(
                folder / name
            )


def _own_sum(config: Mapping[str, Any]) -> str:
    own = {name: value for name, value in config[OWN].items() if name != SUMS}
    return hashlib.sha256(json.dumps({**config, OWN: own}, sort_keys=True).encode()).hexdigest()
