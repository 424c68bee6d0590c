"""The option --engine, and the line that tells which engine runs."""

from __future__ import annotations

import sys

from dikkat_runtime.engine.contract import EngineInfo

ENGINE_HELP = "What computes; auto is native where that can run, else torch."


def tell_engine(info: EngineInfo) -> None:
    """Say on standard error what computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)
