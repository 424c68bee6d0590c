"""Open the model of a run for a command, by the engine that its options ask for."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from dikkat_runtime.cli import program
from dikkat_runtime.cli.options import Option
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.options import MAX_BEAMS, Device, Formality
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError

EngineOption = Annotated[
    EngineName, Option(help="Engine to compute with; auto is native where it can run, else torch.")
]
PrecisionOption = Annotated[
    PrecisionName,
    Option(
        help="int8 is faster; auto takes it where training measured that it loses next to nothing. int4, not for "
        "translators, is half the size again. float16 is for GPUs."
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
FormalityOption = Annotated[Formality, Option(help="More or less formal address, where the run has learned it.")]
NoCorrectionsOption = Annotated[bool, Option(help="Ignore corrections (see dikkat correct).")]
AllWordsOption = Annotated[bool, Option(help="Ignore the run's shortlist of words.")]
JsonOption = Annotated[bool, Option("--json", help="Machine-readable, on standard output.")]


def print_engine(info: EngineInfo) -> None:
    """Print on standard error which engine computes, at what precision, with how many threads."""
    print(info, file=sys.stderr)


ModelName = Literal["Translator", "Classifier", "Regressor", "Tagger", "Generator", "Embedder", "CrossEmbedder"]


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """The options by which a command computes; they are among its own."""

    precision: PrecisionOption = "auto"
    device: DeviceOption = "cpu"
    engine: EngineOption = "auto"


@dataclass(frozen=True, slots=True)
class EngineOptions(ComputeOptions):
    """The options by which a command computes, with the number of threads."""

    threads: ThreadsOption = None


COMPUTE, ENGINE = ComputeOptions(), EngineOptions()


def open_model(name: ModelName, run: Path, choice: EngineOptions, all_words: bool = False) -> Any:
    """Return the object of `dikkat_runtime.tasks` over the model of a run directory. Raises as its `load`."""
    home = {"CrossEmbedder": "embedder", "Regressor": "classifier"}.get(name, name.lower())
    own = getattr(import_module(f"dikkat_runtime.tasks.{home}"), name)
    others = {"all_words": all_words} if name == "Translator" else {}
    return own.load(run, choice.precision, choice.device, choice.engine, threads=choice.threads, **others)


def toolkit_module(name: str, option: str) -> ModuleType:
    """Return the module in which dikkat does what an option asks for. Raises `UsageError` where it is not installed."""
    for toolkit in program.toolkits():
        return import_module(f"{toolkit.__package__}.{name}")
    raise UsageError("{option} needs dikkat: pip install dikkat", option)
