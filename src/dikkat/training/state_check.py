"""Numbers of a state.json are checked before a training goes on from them: a stranger may have written them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dikkat_runtime.messages import msg

_MAX_VALUE = 1 << 53


def check_state(state: Mapping[str, Any], kind: type[Any]) -> None:
    """Compare `state` with the fields of the dataclass `kind` that are numbers. Raises `TypeError` naming the first."""
    for field in fields(kind):
        value, expected = state.get(field.name, field.default), str(field.type)
        if expected == "int" and not (type(value) is int and 0 <= value <= _MAX_VALUE):
            raise TypeError(msg("{name} must be a whole number of at least 0").fill(field.name))
        if expected == "float" and not (_is_number(value) and value >= 0):
            raise TypeError(msg("{name} must be a number of at least 0").fill(field.name))
        if expected == "float | None" and not (value is None or _is_number(value)):
            raise TypeError(msg("{name} must be a number").fill(field.name))
        if expected in ("str", "bool") and type(value).__name__ != expected:
            raise TypeError(msg("{name} must be of the kind {kind}").fill(field.name, expected))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) <= _MAX_VALUE
