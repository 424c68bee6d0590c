"""The options that several commands share, of engine and search, and the line that tells which engine runs."""

from __future__ import annotations

import sys
from typing import Annotated

from dikkat_runtime.cli.options import Option
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.options import MAX_BEAMS, Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import msg

ALL_WORDS_HELP = msg("Ignore the run's shortlist of words.")

EngineOption = Annotated[
    EngineName, Option(help="Engine to compute with; auto is native where it can run, else torch.")
]
PrecisionOption = Annotated[
    PrecisionName,
    Option(
        help="int8 is faster; auto takes it where training measured that it loses next to nothing. float16 is for GPUs."
    ),
]
DeviceOption = Annotated[Device, Option(help="Where to compute; cuda is the first GPU.")]
ThreadsOption = Annotated[int | None, Option(min=1, help="Threads to compute with; by default, one per processor.")]
BeamOption = Annotated[
    int, Option(min=1, max=MAX_BEAMS, help="Beam size: hypotheses that are followed side by side; 1 is greedy search.")
]
LengthPenaltyOption = Annotated[
    float | None,
    Option(help="Larger favours longer output; by default, as the run says (1.6 for one that was trained here)."),
]
NoCorrectionsOption = Annotated[bool, Option(help="Ignore corrections (see dikkat correct).")]
AllWordsOption = Annotated[bool, Option(help=ALL_WORDS_HELP)]


def print_engine(info: EngineInfo) -> None:
    """Print on standard error which engine computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)
