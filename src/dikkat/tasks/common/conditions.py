"""The conditions that decide whether a resumed run is the same bit for bit."""

from __future__ import annotations

import torch

from dikkat.kernels.gpu.choice import why_absent
from dikkat.kernels.library import library
from dikkat.tasks.common.device import device_name
from dikkat.training.loop import Trainer
from dikkat_runtime.messages import joined, msg


def conditions_of(trainer: Trainer) -> dict[str, str]:
    """Return the conditions that `trainer` computes under, by name."""
    device = trainer.parameters.master.device
    conditions = {"processor": device_name(device), "numbers": str(trainer.precision), "torch": torch.__version__}
    if device.type == "cpu":
        conditions["threads"] = str(torch.get_num_threads())
        conditions["engine"] = "torch" if library() is None else "native"
    else:
        conditions["engine"] = "torch" if why_absent() else "triton"
    return conditions


def what_differs(before: dict[str, str], now: dict[str, str]) -> str:
    """Return one line that names the conditions that changed since the run began, or "".

    `before` is empty for runs that were made before conditions were recorded.
    """
    names = sorted(name for name in before if before[name] != now.get(name))
    if not names:
        return ""
    differences = joined(
        ", ",
        (msg("{name} {now} instead of {before}").fill(name, now.get(name, "unknown"), before[name]) for name in names),
    )
    return msg("resumed with {differences}: the model will be as good, but not the same bit for bit").fill(differences)
