"""What the bits of a trained model depend on beside its settings, its data and this program."""

from __future__ import annotations

import torch

from dikkat.kernels.library import library
from dikkat.tasks.common.device import device_name
from dikkat.training.loop import Trainer


def conditions_of(trainer: Trainer) -> dict[str, str]:
    """The conditions that `trainer` computes under, by their names."""
    device = trainer.parameters.master.device
    found = {"processor": device_name(device), "numbers": str(trainer.precision), "torch": torch.__version__}
    if device.type == "cpu":
        found["threads"] = str(torch.get_num_threads())
        found["engine"] = "torch" if library() is None else "native"
    return found


def what_differs(before: dict[str, str], now: dict[str, str]) -> str:
    """One line about the conditions that a run is resumed under, where they are not those it began under; else empty.

    Nothing is known of the runs of an older dikkat.
    """
    names = sorted(name for name in before if before[name] != now.get(name))
    if not names:
        return ""
    told = ", ".join(f"{name} {now.get(name, 'unknown')} instead of {before[name]}" for name in names)
    return f"resumed with {told}: the model will be as good, but not the same bit for bit"
