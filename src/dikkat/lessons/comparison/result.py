"""The result of a comparison, also as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dikkat.lessons.comparison.copy_task import CHANCE, Copied
from dikkat.lessons.comparison.costs import Cost, formulas
from dikkat.lessons.comparison.forms import Forms
from dikkat.lessons.comparison.measurement import HOW_MEMORY, HOW_TIMED
from dikkat.lessons.comparison.reach import Reach
from dikkat.lessons.comparison.settings import ComparisonSettings
from dikkat.lessons.comparison.sweeps import Sweep


@dataclass(frozen=True, slots=True)
class Machine:
    """Hold the machine that was measured on."""

    processor: str
    threads: int
    torch: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold what was counted, measured, differentiated and trained."""

    settings: ComparisonSettings
    machine: Machine
    costs: tuple[Cost, ...]
    """Cost of every kind at every length."""
    over_length: Sweep
    over_width: Sweep
    forms: Forms
    reaches: tuple[Reach, ...]
    """Reach of every kind through one layer, then through the stack."""
    joined: Reach
    """Reach of the stack of convolutions over as many inputs as its receptive field holds."""
    missed: Reach
    """Reach of the same stack over one input more."""
    copied: tuple[Copied, ...]
    seconds: float


def as_json(comparison: Comparison) -> str:
    """Return one JSON object; exponents that could not be fitted and errors that could not be measured are null."""
    content = asdict(comparison)
    content["formulas"] = {kind: asdict(written) for kind, written in formulas(comparison.settings.cell).items()}
    content["how"] = {"time": HOW_TIMED, "memory": HOW_MEMORY, "chance": CHANCE}
    every = [*content["reaches"], content["joined"], content["missed"]]
    for written, reach in zip(every, [*comparison.reaches, comparison.joined, comparison.missed], strict=True):
        written.update(length=reach.length, earliest=reach.earliest, reached=reach.reached)
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
