"""A command of one sentence loads nothing that it does not compute with."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from dikkat.cli.app import make_app
from dikkat.cli.translating import TranslateOptions
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
from {package}.cli.main import run
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
    _, _, modules = measured(COMMANDS.format(package="dikkat_runtime"), command, runs[KINDS[command]])
    assert packages(modules) & {*SLOW, "dikkat"} == set()
    assert {"numpy", "tokenizers", "dikkat_runtime.engine"} <= modules, "they were looked for"


def test_dikkat_translates_as_the_runtime_does(runs: dict[str, Path]) -> None:
    _, _, modules = measured(COMMANDS.format(package="dikkat"), "translate", runs["translator"])
    assert packages(modules) & SLOW == set()
    assert "dikkat_runtime.engine.native" in modules


def test_dikkat_classifies_embeds_and_continues_without_torch(runs: dict[str, Path]) -> None:
    calls = [word for command in ("classify", "embed", "generate") for word in (command, runs[KINDS[command]])]
    _, _, modules = measured(COMMANDS.format(package="dikkat"), *calls)
    # their options are read by typer, and that by pydantic
    assert packages(modules) & (SLOW - {"typer", "pydantic"}) == set()
    assert "dikkat_runtime.engine" in modules


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_one_sentence_costs_little_more_than_numpy_and_tokenizers(package: str, runs: dict[str, Path]) -> None:
    """Processor time of both, so that a busy machine changes little; the first run of each writes bytecode."""
    program, run = COMMANDS.format(package=package), runs["translator"]
    # by turns: what else the machine does takes from both alike
    ours, needed = zip(*((measured(program, "translate", run), measured(IMPORTS)) for _ in range(3)), strict=True)
    assert min(seconds for seconds, *_ in ours) <= 4 * min(seconds for seconds, *_ in needed)
    assert max(memory for _, memory, _ in ours) <= 80


def test_a_plain_command_line_is_read_as_typer_reads_it() -> None:
    command: Any = typer.main.get_command(make_app("translate")).commands["translate"]  # type: ignore[attr-defined]
    options = {parameter.name: parameter for parameter in command.params}
    fields = {field.name: field for field in dataclasses.fields(TranslateOptions)}
    assert options.keys() == fields.keys()
    for name, field in fields.items():
        default = None if field.default is dataclasses.MISSING else field.default
        assert options[name].get_default(typer.Context(command)) == default, name
    values = {"int": "3", "float": "0.5", "str": "a", "Path": "a", "bool": ""}
    chosen = {"PrecisionName": "int8", "Device": "cuda", "EngineName": "torch"}
    for name, field in fields.items():
        kind = re.sub(r" \| None", "", str(field.type))
        word = f"--{name.replace('_', '-')}"
        words = {"run": ["other"], "file": ["here"]}.get(name, [word, *filter(None, [{**values, **chosen}[kind]])])
        line = words if name == "run" else ["here", *words]
        with command.make_context("translate", [*line]) as context:
            assert vars(TranslateOptions.read(line) or 0) == context.params, line


@pytest.mark.parametrize(
    "line",
    [
        "", "--help", "run --help", "run --beam", "run --beam x", "run --beam -3", "run --beam 1001",
        "run --beam 3 --beam 4", "run --bea 3", "run --engine fast", "run a b", "run --scores=yes",
        "run --batch_size 3", "-- run", "run -b 3", "run --top-p 1e-3", "run --run other", "run --seed=",
        "run --out",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    assert TranslateOptions.read(line.split()) is None


def test_a_value_behind_an_equals_sign_is_plain() -> None:
    assert TranslateOptions.read(["run", "--beam=3"]) == TranslateOptions(Path("run"), beam=3)
