"""Choose the engine of a model once, from its settings and from this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dikkat_runtime.engine.settings import NATIVE, STACK, Allowed, NeedsTorchError, model_settings
from dikkat_runtime.errors import AbsentError, UsageError
from dikkat_runtime.messages import msg
from dikkat_runtime.native.library import library

COMPUTED: dict[str, Allowed] = {"translator": NATIVE, "classifier": STACK, "lm": STACK}
"""The settings that the native engine computes, by the name of a kind of model in config.json."""


def why_not_native(config: Mapping[str, Any], where: str) -> str | None:
    """Return why the native engine cannot compute the model of a config.json, or None where it can.

    Raises `DataError` for settings that are damaged, and `UsageError` where `DIKKAT_NATIVE_LEVEL` names a level that
    this machine lacks: a user who names a level wants no other engine.
    """
    if os.environ.get("DIKKAT_NATIVE", "1") == "0":
        return "DIKKAT_NATIVE=0"
    task = config.get("task", "translator")
    if task not in COMPUTED:
        return msg("it does not compute models of the kind {task}").fill(task)
    try:
        model_settings(config, where, COMPUTED[task])
    except NeedsTorchError as error:
        return error.reason
    except UsageError as error:
        return str(error)
    try:
        library()
    except AbsentError as error:
        return error.reason
    return None
