"""The options --engine and --precision, and the line that tells which engine runs."""

from __future__ import annotations

import sys

from dikkat_runtime.engine.contract import EngineInfo

ENGINE_HELP = "What computes; auto is native where that can run, else torch."
PRECISION_HELP = (
    "int8 is faster; auto takes it where training measured that it loses next to nothing. float16 is for GPUs."
)
ALL_WORDS_HELP = "Leave the shortlist of words of a run aside."
THREADS_HELP = "Threads to compute with; all processors if absent."
DEVICE_HELP = "Where to compute; cuda is the first GPU."


def print_engine(info: EngineInfo) -> None:
    """Print on standard error which engine computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)
