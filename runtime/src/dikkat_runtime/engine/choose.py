"""Which engine computes: decided once, from the settings of a model and from this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.library import library


def why_not_native(config: Mapping[str, Any], where: str) -> str | None:
    """Why the native engine cannot compute the model of a config.json; None where it can.

    Raises `DataError` for settings that are damaged.
    """
    try:
        model_settings(config, where, NATIVE)
        library()
    except UsageError as error:
        return str(error)
    return None
