"""All that a comparison has found, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dikkat.explain.comparison.copy_task import CHANCE, Copied
from dikkat.explain.comparison.costs import Cost, formulas
from dikkat.explain.comparison.forms import Forms
from dikkat.explain.comparison.measurement import HOW_MEMORY, HOW_TIMED
from dikkat.explain.comparison.reach import Reach
from dikkat.explain.comparison.settings import ComparisonSettings
from dikkat.explain.comparison.sweeps import Sweep


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    processor: str
    threads: int
    torch: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counted, measured, differentiated and trained."""

    settings: ComparisonSettings
    machine: Machine
    costs: tuple[Cost, ...]
    """Every kind at every length."""
    over_length: Sweep
    over_width: Sweep
    forms: Forms
    reaches: tuple[Reach, ...]
    """Every kind through one layer, then through the stack."""
    joined: Reach
    """Convolutions of the stack over as many inputs as their field holds, which it joins."""
    missed: Reach
    """The same over one input more, which it does not."""
    copied: tuple[Copied, ...]
    seconds: float


def as_json(found: Comparison) -> str:
    """One object; exponents that could not be fitted and errors that could not be taken are null."""
    content = asdict(found)
    content["formulas"] = {kind: asdict(written) for kind, written in formulas(found.settings.cell).items()}
    content["how"] = {"time": HOW_TIMED, "memory": HOW_MEMORY, "chance": CHANCE}
    every = [*content["reaches"], content["joined"], content["missed"]]
    for written, each in zip(every, [*found.reaches, found.joined, found.missed], strict=True):
        written.update(length=each.length, earliest=each.earliest, reached=each.reached)
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
