"""A command of one sentence loads nothing that it does not compute with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.runs import classifier_run, language_model_run, translator_run

SLOW = {"torch", "jaxtyping", "pydantic", "matplotlib", "sacrebleu", "transformers", "typer", "rich"}
"""What takes longer to load than a sentence to translate."""
KINDS = {"translate": "translator", "embed": "translator", "classify": "classifier", "generate": "language model"}
MEASURED = """
import resource, sys
usage = resource.getrusage(resource.RUSAGE_SELF)
memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(usage.ru_utime + usage.ru_stime, memory, *sys.modules, file=sys.stderr)
"""
COMMANDS = """
import sys
from dikkat_runtime.engine import choose as factory
from dikkat_runtime.cli.main import run
if {is_alone}:
    factory.entry_points = lambda **group: ()
for command, directory in zip(sys.argv[1::2], sys.argv[2::2]):
    assert run([command, directory]) == 0
"""
IMPORTS = "import numpy, tokenizers\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "translator": translator_run(folder / "translator"),
        "classifier": classifier_run(folder / "classifier"),
        "language model": language_model_run(folder / "lm"),
    }


def measured(program: str, *arguments: str | Path) -> tuple[float, float, set[str]]:
    """Processor seconds, MiB and names of modules of a process that answers one line."""
    command = [sys.executable, "-c", program + MEASURED, *map(str, arguments)]
    done = subprocess.run(command, input="The cat.\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds, kibibytes, *modules = done.stderr.rstrip("\n").rpartition("\n")[2].split()
    return float(seconds), int(kibibytes) / 1024, set(modules)


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("command", KINDS)
def test_the_runtime_loads_only_what_it_computes_with(command: str, runs: dict[str, Path]) -> None:
    _, _, modules = measured(COMMANDS.format(is_alone=True), command, runs[KINDS[command]])
    assert packages(modules) & {*SLOW, "dikkat"} == set()
    assert {"numpy", "tokenizers", "dikkat_runtime.engine"} <= modules, "they were looked for"


def test_dikkat_translates_as_the_runtime_does(runs: dict[str, Path]) -> None:
    _, _, modules = measured(COMMANDS.format(is_alone=False), "translate", runs["translator"])
    assert packages(modules) & SLOW == set()
    assert "dikkat_runtime.engine.native" in modules


def test_dikkat_classifies_embeds_and_continues_without_torch(runs: dict[str, Path]) -> None:
    calls = [word for command in ("classify", "embed", "generate") for word in (command, runs[KINDS[command]])]
    _, _, modules = measured(COMMANDS.format(is_alone=False), *calls)
    assert packages(modules) & (SLOW - {"pydantic"}) == set()
    assert "dikkat_runtime.engine" in modules


# a limit of time: by day the modules are counted that a start loads
@pytest.mark.nightly
@pytest.mark.parametrize("is_alone", [True, False], ids=["dikkat-runtime", "dikkat"])
def test_one_sentence_costs_little_more_than_numpy_and_tokenizers(is_alone: bool, runs: dict[str, Path]) -> None:
    """Processor time of both, so that a busy machine changes little; the first run of each writes bytecode."""
    program, run = COMMANDS.format(is_alone=is_alone), runs["translator"]
    # by turns: what else the machine does takes from both alike
    ours, needed = zip(*((measured(program, "translate", run), measured(IMPORTS)) for _ in range(3)), strict=True)
    assert min(seconds for seconds, *_ in ours) <= 4 * min(seconds for seconds, *_ in needed)
    assert max(memory for _, memory, _ in ours) <= 80


def test_help_loads_no_command() -> None:
    program = "from dikkat_runtime.cli.main import run\nassert run(['--help']) == 0\n"
    _, memory, modules = measured(program)
    assert packages(modules) & {*SLOW, "numpy", "tokenizers"} == set()
    assert memory <= 40
