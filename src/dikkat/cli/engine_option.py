"""The option --engine, and the line that names the engine that runs."""

from __future__ import annotations

import sys

from dikkat_runtime.engine.contract import EngineInfo

ENGINE_HELP = "What computes; auto is native where that can run, else torch."


def print_engine(info: EngineInfo) -> None:
    """Print on standard error which engine computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)
