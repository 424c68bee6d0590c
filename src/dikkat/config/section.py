"""The base of every section of settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from dikkat_runtime.messages import msg

MAX_VALUE = 2**31 - 1
"""No size or count of a run is larger: what computes with it would leave its range."""


class Section(BaseModel):
    """Hold a frozen group of settings that refuses unknown keys and numbers that nothing can compute with."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_computable(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and info.field_name != "seed" and value > MAX_VALUE:
            raise ValueError(msg("input should be at most {max_value}").fill(MAX_VALUE))
        return value
