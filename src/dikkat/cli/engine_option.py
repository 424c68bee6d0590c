"""The options --engine and --precision, and the line that tells which engine runs."""

from __future__ import annotations

import sys

from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.messages import msg

ENGINE_HELP = msg("What computes; auto is native where that can run, else torch.")
PRECISION_HELP = msg(
    "int8 is faster; auto takes it where training measured that it loses next to nothing. float16 is for GPUs."
)
ALL_WORDS_HELP = msg("Leave the shortlist of words of a run aside.")
DEVICE_HELP = msg("Where to compute; cuda is the first GPU.")


def print_engine(info: EngineInfo) -> None:
    """Print on standard error which engine computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)


def print_torch_engine() -> None:
    """Say the same where a model is looked into: only its modules of PyTorch can be."""
    import torch

    print_engine(EngineInfo("torch", "float32", torch.get_num_threads()))
