"""The option --precision of the commands that write a model for a browser."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from dikkat_runtime.cli.options import Option


class WebPrecision(StrEnum):
    """Name the precision that a model in a browser computes in."""

    auto = "auto"
    int8 = "int8"
    float32 = "float32"


WebPrecisionOption = Annotated[
    WebPrecision, Option(help="auto is int8, a third of the size, unless training measured that it loses.")
]
